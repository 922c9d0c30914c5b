"""Targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.client.answers import Probed, RotatedSecret, Targets, TargetShown
from gateway.client.bodies import Span, encode
from gateway.client.call import Call, Repeat, answer, nothing, path


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


def put_target(name: str, table: Mapping[str, Any]) -> Call[TargetShown]:
    """Registers a target, or replaces it; `table` as in `gateway.toml`."""
    return Call(method="PUT", path=path("targets", name), read=answer(TargetShown), content=encode(table))


def delete_target(name: str, *, force: bool = False) -> Call[None]:
    """Forgets a registered target; with `force` also while jobs wait for it."""
    query = {"force": "true"} if force else {}
    return Call(method="DELETE", path=path("targets", name), read=nothing, query=query, repeat="unsent")


def probe_target(name: str, payload: Any = None) -> Call[Probed]:
    """Sends a target one signed request, without a job."""
    content = b"" if payload is None else encode({"payload": payload})
    where = path("targets", name, "test")
    return Call(method="POST", path=where, read=answer(Probed), content=content, repeat="unsent")


def rotate_target(name: str, secret: str | None = None, overlap: Span | None = None) -> Call[RotatedSecret]:
    """Gives a registered target a new secret, made there if left out."""
    given = {key: value for key, value in (("secret", secret), ("overlap", overlap)) if value is not None}
    content = encode(given) if given else b""
    where = path("targets", name, "rotate")
    return Call(method="POST", path=where, read=answer(RotatedSecret), content=content, repeat="unsent")


def enable_target(name: str, *, replay: bool = False, rate: str | None = None) -> Call[TargetShown]:
    """Lets a disabled target's jobs go on; with `replay` those that died meanwhile are sent back, at a rate."""
    content = encode({"replay": replay} | ({"rate": rate} if rate else {}))
    repeat: Repeat = "unsent" if replay else "safe"
    where = path("targets", name, "enable")
    return Call(method="POST", path=where, read=answer(TargetShown), content=content, repeat=repeat)
