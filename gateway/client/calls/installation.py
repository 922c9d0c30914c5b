"""What is set up: lanes, API keys, signing keys; and whether it takes work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gateway.apikeys import Scope
from gateway.client.answers import Keys, Lanes, MadeKey, Ready, SigningKeys, Stats
from gateway.client.bodies import CallbackOptions, Span, encode
from gateway.client.call import Call, answer, nothing, path


def list_lanes() -> Call[Lanes]:
    """The lanes and how much waits in them."""
    return Call(method="GET", path="/lanes", read=answer(Lanes))


def pause_lane(name: str) -> Call[Lanes]:
    """Lets no job of a lane start."""
    return Call(method="POST", path=path("lanes", name, "pause"), read=answer(Lanes))


def resume_lane(name: str) -> Call[Lanes]:
    """Lets a lane's jobs go on."""
    return Call(method="POST", path=path("lanes", name, "resume"), read=answer(Lanes))


def list_keys() -> Call[Keys]:
    """The API keys, without their secrets."""
    return Call(method="GET", path="/apikeys", read=answer(Keys))


def create_key(name: str, scopes: Iterable[Scope], callback: CallbackOptions | None = None) -> Call[MadeKey]:
    """Makes an API key, whose text comes back this once; `callback` is that of its jobs that name none."""
    body: dict[str, Any] = {"name": name, "scopes": list(scopes)}
    content = encode(body | ({"callback": callback} if callback else {}))
    return Call(method="POST", path="/apikeys", read=answer(MadeKey), content=content, repeat="unsent")


def delete_key(key_id: str) -> Call[None]:
    """Takes an API key away for good."""
    return Call(method="DELETE", path=path("apikeys", key_id), read=nothing, repeat="unsent")


def list_signing_keys() -> Call[SigningKeys]:
    """The public keys that callbacks without a secret verify with."""
    return Call(method="GET", path="/signing-keys", read=answer(SigningKeys))


def rotate_signing_key(overlap: Span | None = None) -> Call[SigningKeys]:
    """Makes a new signing key; the one until now signs as well for a while, 7 days if left out."""
    content = encode({"overlap": overlap}) if overlap is not None else b""
    return Call(method="POST", path="/signing-keys/rotate", read=answer(SigningKeys), content=content, repeat="unsent")


def get_readiness() -> Call[Ready]:
    """Whether work can be taken in."""
    return Call(method="GET", path="/readyz", read=answer(Ready))


def get_stats() -> Call[Stats]:
    """The installation in figures."""
    return Call(method="GET", path="/stats", read=answer(Stats))
