"""How commands print: JSON for programs, tables for people; text of jobs cannot steer a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from gateway.durations import roughly

LEAST_WIDTH = 60
"""Of a table: what does not fit would not be shown at all, and a terminal folds longer lines by itself."""

WIDE = 100
"""Columns of a terminal from which on a table shows more."""


def print_bytes(body: bytes) -> None:
    """JSON as it came, byte for byte; an answer without a body is an empty object."""
    sys.stdout.flush()
    sys.stdout.buffer.write((body or b"{}") + b"\n")
    sys.stdout.flush()


def print_json(value: Any) -> None:
    """A value as one line of JSON."""
    print_bytes(msgspec.json.encode(value))


def print_answer(body: bytes) -> None:
    """Whatever somebody answered: JSON as JSON, laid out in lines, else text, in which nothing steers a terminal."""
    try:
        text = msgspec.json.format(body, indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        print("\n".join(map(printable, body.decode(errors="replace").splitlines())))
        return
    # in JSON only a text can hold one, and has a way to write it
    print("".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text))


def print_table(names: Sequence[str], rows: Iterable[Sequence[object]], *, whole: int = 0) -> None:
    """Prints a table that folds what is too wide, and cuts nothing off; `none` where it would be empty."""
    table = make_table(names, rows, whole=whole)
    if table.row_count:
        _console().print(table)
    else:
        print("none")


def is_wide() -> bool:
    """Whether there is room beside what 80 columns hold."""
    return _console().width >= WIDE


def ago(at: datetime | None, now: datetime) -> str:
    """How long ago, to two digits: `12s`, `3m`, `2d`; empty where nothing was."""
    return "" if at is None else roughly(max(0, round((now - at).total_seconds())))


def make_table(names: Sequence[str], rows: Iterable[Sequence[object]], *, whole: int = 0) -> Table:
    """A table; a tuple is a cell of several lines, the first `whole` columns stay in one piece."""
    columns = (Column(name, overflow="fold", no_wrap=at < whole) for at, name in enumerate(names))
    table = Table(*columns, box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*("\n".join(map(printable, cell if isinstance(cell, tuple) else (cell,))) for cell in row))
    return table


def print_facts(facts: Mapping[str, object]) -> None:
    """A line for each fact that is there."""
    there = {name: value for name, value in facts.items() if value not in (None, "", [], {})}
    width = max(map(len, there), default=0)
    for name, value in there.items():
        print(f"{name:{width}}  {printable(value)}")


def rfc3339(at: datetime) -> str:
    """A time as the API writes it."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def printable(value: object) -> str:
    """A value as text in which nothing is left that a terminal would obey; times in UTC to the second."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value) if isinstance(value, (str, int, float)) else msgspec.json.encode(value).decode()
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def progress(what: str) -> Progress:
    """A progress bar on standard error, where that is a terminal; nothing at all where it is not."""
    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def _console() -> Console:
    console = Console(markup=False, highlight=False, emoji=False)
    console.width = max(console.width, LEAST_WIDTH)
    return console
