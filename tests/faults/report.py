"""The results as lines and as the table of docs/reliability.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.faults.suite import Result

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reliability.md"
_BEGIN, _END = "<!-- {}: begin -->", "<!-- {}: end -->"
_HEAD = (
    "| # | fault | on | injected | times | acknowledged | lost | ran again (at most) | recovered in |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def line_of(result: Result) -> str:
    """A result in a line of a terminal."""
    verdict = "BROKEN" if result.breaches else "holds"
    return (
        f"{result.number:>4} {result.topology:10} {verdict:6} {result.title}: {result.injected} ×{result.times}; "
        f"acknowledged {result.acknowledged}, lost {result.lost}{_most(result)}, ran again {result.doubled} "
        f"(≤ {result.in_flight}), recovered in {_seconds(result)}; {result.took_s:.0f} s"
        + (f"; {result.notes}" if result.notes else "")
    )


def write_table(results: Sequence[Result]) -> None:
    """Puts the rows into the page, each in the place of the one of the same number and topology."""
    _, old, _ = _between(PAGE.read_text(), "faults")
    rows = dict(_rows(old)) | {_key(result): _row(result) for result in results}
    replace_between(PAGE, "faults", "\n".join([_HEAD, *(rows[key] for key in sorted(rows, key=_order))]))


def replace_between(page: Path, name: str, text: str) -> None:
    """Puts a text between the two marks of that name in a page."""
    before, _, after = _between(page.read_text(), name)
    page.write_text(f"{before}{_BEGIN.format(name)}\n{text}\n{_END.format(name)}{after}")


def _between(text: str, name: str) -> tuple[str, str, str]:
    before, begin, rest = text.partition(_BEGIN.format(name))
    inside, end, after = rest.partition(_END.format(name))
    if not begin or not end:
        raise ValueError(f"the page has no marks for {name!r}")
    return before, inside, after


def _rows(table: str) -> list[tuple[tuple[str, str], str]]:
    lines = [line for line in table.splitlines() if re.match(r"\| \d", line)]
    return [((cells[1].strip(), cells[3].strip()), line) for line in lines if (cells := line.split("|"))]


def _key(result: Result) -> tuple[str, str]:
    return result.number, result.topology


def _order(key: tuple[str, str]) -> tuple[int, str, str]:
    return int(re.sub(r"\D", "", key[0])), key[0], ("standalone", "sentinel", "cluster").index(key[1]).__str__()


def _row(result: Result) -> str:
    cells = (
        result.number,
        result.title,
        result.topology,
        result.injected + (f" ({result.notes})" if result.notes else ""),
        str(result.times),
        f"{result.acknowledged:,}",
        f"**{result.lost}**{_most(result)}",
        f"{result.doubled} ({result.in_flight})",
        _seconds(result) + ("; **broken**" if result.breaches else ""),
    )
    return f"| {' | '.join(cells)} |"


def _most(result: Result) -> str:
    return f" (≤ {result.lost_most})" if result.lost_most else ""


def _seconds(result: Result) -> str:
    return "–" if result.recovered_s is None else f"{result.recovered_s:.1f} s"
