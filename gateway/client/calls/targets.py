"""Targets."""

from __future__ import annotations

from gateway.client.answers import Targets, TargetShown
from gateway.client.call import Call, answer, path


def list_targets() -> Call[Targets]:
    """Every target, by name."""
    return Call(method="GET", path="/targets", read=answer(Targets))


def get_target(name: str) -> Call[TargetShown]:
    """One target, and how it stands."""
    return Call(method="GET", path=path("targets", name), read=answer(TargetShown))


def pause_target(name: str) -> Call[TargetShown]:
    """Lets no job of it start."""
    return Call(method="POST", path=path("targets", name, "pause"), read=answer(TargetShown))


def resume_target(name: str) -> Call[TargetShown]:
    """Lets its jobs go on."""
    return Call(method="POST", path=path("targets", name, "resume"), read=answer(TargetShown))
