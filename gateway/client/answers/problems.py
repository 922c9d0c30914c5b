"""What every answer is, and why a request was refused."""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts that are absent are None, empty or False; times are aware."""


class ProblemFault(Answer, frozen=True, kw_only=True):
    """One fault: a JSON pointer into the body (`""`: all of it), or a query parameter's name."""

    pointer: str
    detail: str


class Problem(Answer, frozen=True, kw_only=True):
    """Why something was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemFault] = []
