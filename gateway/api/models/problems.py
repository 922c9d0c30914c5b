"""What every answer is, and why a request was refused."""

from __future__ import annotations

import msgspec


class Model(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Absent facts are absent, and nothing else is there."""


class ProblemFault(Model):
    """One fault: a JSON pointer into the body (`""`: all of it), or a query parameter's name."""

    pointer: str
    detail: str


class Problem(Model):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemFault]
