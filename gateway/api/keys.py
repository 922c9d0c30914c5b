"""API keys over the API: list, make, delete; a key's text is shown once, when it is made."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.api.auth import ANYONE
from gateway.api.call import Call
from gateway.api.json_bodies import json_text
from gateway.api.reply import DONE, Reply, json_reply
from gateway.apikeys import ApiKey, Scope
from gateway.errors import InvalidRequest, WrongState
from gateway.jobs import Callback
from gateway.store.apikeys import any_key, create_key, delete_key, list_keys
from gateway.submission.checks import check_callback
from gateway.submission.decoding import decode_whole
from gateway.submission.faults import Faults
from gateway.timestamps import timestamp


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a key is to be called, what it may do, and the callback of its jobs that name none."""

    name: str
    scopes: tuple[Scope, ...]
    callback: Callback | None = None


async def list_all(call: Call) -> Reply:
    """Every key without its secret, the oldest first."""
    keys = await call.in_time(lambda: list_keys(call.gateway.store))
    return json_reply({"apikeys": [_render(key) for key in keys]})


async def create(call: Call) -> Reply:
    """201 with the key's text, which cannot be had again; WrongState where it would lock its own maker out."""
    wanted = decode_whole(await json_text(call), NewKey)
    if wanted.callback is not None:
        check_callback(wanted.callback, call.gateway.catalog.allowed, faults := Faults())
        faults.raise_any()
    store, now_ms = call.gateway.store, int(call.gateway.clock() * 1000)
    if call.client is ANYONE and "admin" not in wanted.scopes and not await call.in_time(lambda: any_key(store)):
        raise WrongState(
            "this is the first key: from then on the API wants one, and none could make others; "
            'make one with the scope "admin" first'
        )
    try:
        key_id, key = await call.in_time(
            lambda: create_key(store, wanted.name, wanted.scopes, now_ms=now_ms, callback=wanted.callback)
        )
    except ValueError as exc:
        raise InvalidRequest(str(exc)) from exc
    call.gateway.authoriser.forget(key_id)
    return json_reply({"id": key_id, "name": wanted.name, "scopes": wanted.scopes, "key": key}, 201)


async def delete(call: Call) -> Reply:
    """204; other processes forget the key within 5 s."""
    key_id = call.path_value("key_id")
    await call.in_time(lambda: delete_key(call.gateway.store, key_id))
    call.gateway.authoriser.forget(key_id)
    return DONE


def _render(key: ApiKey) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": key.key_id,
        "name": key.name,
        "scopes": key.scopes,
        "created_at": timestamp(key.created_ms),
    }
    if key.callback is not None:
        out["callback"] = {"url": key.callback.url, "events": key.callback.events}
    return out
