"""Query parameters, checked like a body: unknown, repeated and wrong ones are all named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl

from gateway.errors import Fault, InvalidRequest
from gateway.jobs import Status
from gateway.spelling import mend_name
from gateway.store.listing import Cursor, parse_cursor

DEFAULT_LIMIT = 50
MAX_LIMIT = 100
MAX_INDEX = 1000
MAX_MEMBER = 256
"""Characters of a job id, or of what names a flow: `~<target>:<key>`."""

NO_CURSOR = "not a cursor that this API gave out"

_SCORE = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?(e\+?[0-9]{1,2})?\Z", re.ASCII)
_STATUSES = {status.value: status for status in Status}


class Query:
    """The parameters of one request; `done()` raises what was found wrong, so call it after the last read."""

    def __init__(self, query_string: bytes, known: Sequence[str]) -> None:
        self._faults: list[Fault] = []
        self._values: dict[str, str] = {}
        for name, value in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True):
            if name not in known:
                self._faults.append(Fault(name[:64], f"unknown parameter; {mend_name(name[:64], known)}"))
            elif name in self._values:
                self._faults.append(Fault(name, "is there twice; give it once"))
            else:
                self._values[name] = value

    def text(self, name: str) -> str | None:
        """The value as it is; an empty one counts as left out."""
        return self._values.get(name) or None

    def one_of(self, name: str, choices: Sequence[str]) -> str | None:
        value = self.text(name)
        if value is not None and value not in choices:
            self._faults.append(Fault(name, f"{value[:64]!r} is none of them; {mend_name(value[:64], choices)}"))
        return value

    def some_of(self, name: str, choices: Sequence[str]) -> frozenset[str]:
        """Values with commas between; none for all."""
        found = frozenset(filter(None, (self.text(name) or "").split(",")))
        for value in sorted(found.difference(choices)):
            self._faults.append(Fault(name, f"{value[:64]!r} is none of them; {mend_name(value[:64], choices)}"))
        return found

    def status(self) -> Status | None:
        return _STATUSES.get(self.one_of("status", tuple(_STATUSES)) or "")

    def limit(self) -> int:
        """How many records a page has, 1 to 100."""
        value = self.text("limit")
        if value is None:
            return DEFAULT_LIMIT
        if value.isascii() and value.isdigit() and len(value) <= 3 and 1 <= int(value) <= MAX_LIMIT:
            return int(value)
        self._faults.append(Fault("limit", f"write a number from 1 to {MAX_LIMIT}"))
        return DEFAULT_LIMIT

    def cursor(self) -> str | None:
        """Where the page starts, as an earlier answer gave it out."""
        text = self.text("cursor")
        if not is_cursor(text):
            self._faults.append(Fault("cursor", NO_CURSOR))
        return text

    def done(self) -> None:
        if self._faults:
            raise InvalidRequest("the query has faults", faults=self._faults)


def is_cursor(text: str | None) -> bool:
    """Whether the text, or none at all, says where a page may start."""
    try:
        at = parse_cursor(text)
    except InvalidRequest:
        return False
    return 0 <= at.index <= MAX_INDEX and (not text or _is_place(at))


def _is_place(at: Cursor) -> bool:
    """Whether the cursor could be an entry of an index: it goes into a script as it is."""
    if not at.score and not at.job_id and not at.queue:
        return True
    return _SCORE.match(at.score) is not None and 1 <= len(at.job_id) <= MAX_MEMBER and len(at.queue) <= MAX_MEMBER
