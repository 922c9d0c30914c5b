"""Failures of task groups, taken out of their wrapping."""

from __future__ import annotations


def first_failure(group: ExceptionGroup[Exception]) -> Exception:
    """The first failure inside a group, however deep; a second is rare, since the first ends the group."""
    failure: Exception = group
    while isinstance(failure, ExceptionGroup):
        failure = failure.exceptions[0]
    return failure
