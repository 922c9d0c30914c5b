"""Targets: what they are, what waits for them and why; registering, pausing and removing them."""

from __future__ import annotations

import base64
import secrets
from typing import Any

import msgspec

from gateway.api.call import Call
from gateway.api.json_bodies import json_text, optional_body
from gateway.api.query import Query
from gateway.api.registering import parse_target, rotated
from gateway.api.replays import DEFAULT_RATE
from gateway.api.reply import DONE, Reply, json_reply
from gateway.backoff import RetryPolicy, patience_s
from gateway.durations import Duration
from gateway.egress.addresses import Allowed
from gateway.errors import NotFound, WrongState
from gateway.limits import KeyLimits, Limits, Rate
from gateway.registry.targets import Target
from gateway.signing import SECRET_PREFIX
from gateway.store.registered import Registered, put_registered, remove_registered
from gateway.store.replays import ReplayOrder, start_replay
from gateway.store.targets import TargetState, enable_target, inspect_targets, pause_target
from gateway.submission.checks import check_callback, check_destination
from gateway.submission.faults import Faults
from gateway.timestamps import timestamp

OVERLAP_S = 86400.0


async def list_all(call: Call) -> Reply:
    """Every target, by name; secrets are in none of them."""
    targets = dict(sorted(call.gateway.registry.targets.items()))
    states = await call.in_time(lambda: inspect_targets(call.gateway.store, list(targets)))
    known = call.gateway.registrations.known
    return json_reply({"targets": [_render(target, states[name], known.get(name)) for name, target in targets.items()]})


async def show(call: Call) -> Reply:
    """One target; NotFound if there is none of that name."""
    return await _shown(call, call.gateway.registry.submittable(call.path_value("target")))


async def put(call: Call) -> Reply:
    """201 for a new target, 200 for one that this replaces; WrongState for a name that the configuration defines."""
    text = await json_text(call)
    gateway, name = call.gateway, call.path_value("target")
    _refuse_configured(call, name)
    target = parse_target(name, text, gateway.registry)
    _check_reached(target, gateway.catalog.allowed)
    if target.flow is not None:
        await call.in_time(lambda: gateway.store.control_flow(name, target.flow or {}))
    verdict = await call.in_time(lambda: put_registered(gateway.store, name, text))
    await call.in_time(gateway.registrations.refresh)
    return await _shown(call, gateway.registry.submittable(name), 201 if verdict == "created" else 200)


async def delete(call: Call) -> Reply:
    """204; WrongState while jobs wait for it or run, unless `force` is `true`: they die of `no_target` then."""
    query = Query(call.scope["query_string"], ("force",))
    force = query.one_of("force", ["true", "false"]) == "true"
    query.done()
    gateway, name = call.gateway, call.path_value("target")
    _refuse_configured(call, name)
    state = (await call.in_time(lambda: inspect_targets(gateway.store, [name])))[name]
    jobs = sum(state.pending.values()) + (state.running or 0)
    if jobs and not force:
        raise WrongState(f"{jobs} jobs of target {name} wait or run: let them end, cancel them, or send ?force=true")
    await call.in_time(lambda: remove_registered(gateway.store, name))
    await call.in_time(gateway.registrations.refresh)
    return DONE


def _check_reached(target: Target, allowed: Allowed) -> None:
    """Raises InvalidRequest where its URL has an address that may not be reached: every job of it would die."""
    url, faults = getattr(target.config, "url", None), Faults()
    if isinstance(url, str):
        check_destination(url, allowed, "/url", faults)
    if target.told is not None:
        check_callback(target.told, allowed, faults)
    faults.raise_any()


class NewSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A secret to sign with from now on, made here if left out; the one until now signs as well for `overlap` (24h)."""

    secret: str | None = None
    overlap: Duration | None = None


async def rotate(call: Call) -> Reply:
    """200 with the new secret, which cannot be had again; WrongState for a target that the configuration defines."""
    wanted = await optional_body(call, NewSecret)
    gateway, name = call.gateway, call.path_value("target")
    _refuse_configured(call, name)
    await call.in_time(gateway.registrations.refresh)
    known = gateway.registrations.known.get(name)
    if known is None:
        raise NotFound(f"no target named {name[:64]!r} was registered")
    secret = wanted.secret or SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
    text = rotated(
        known.table, secret, now_s=gateway.clock(), overlap_s=OVERLAP_S if wanted.overlap is None else wanted.overlap
    )
    parse_target(name, text, gateway.registry)
    await call.in_time(lambda: put_registered(gateway.store, name, text))
    await call.in_time(gateway.registrations.refresh)
    return json_reply({"name": name, "secret": secret})


async def pause(call: Call) -> Reply:
    """The target, of which no job starts until `resume`."""
    return await _paused(call, paused=True)


async def resume(call: Call) -> Reply:
    """The target, whose jobs go on."""
    return await _paused(call, paused=False)


class Enabling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the jobs that died while the target was disabled are sent back, and how fast (`"100/s"` if left out)."""

    replay: bool = False
    rate: Rate | None = None


async def enable(call: Call) -> Reply:
    """The target, whose jobs go on, and the id of the replay of those that died meanwhile, if it was asked for."""
    wanted = await optional_body(call, Enabling)
    store, target = call.gateway.store, call.gateway.registry.submittable(call.path_value("target"))
    state = (await call.in_time(lambda: inspect_targets(store, [target.name])))[target.name]
    await call.in_time(lambda: enable_target(store, target.name))
    replay_id = None
    if wanted.replay and state.disabled_ms:
        order = ReplayOrder(str(wanted.rate or DEFAULT_RATE), target.name, dead_after_ms=state.disabled_ms)
        replay_id = await call.in_time(lambda: start_replay(store, order))
    return await _shown(call, target, replay_id=replay_id)


async def _paused(call: Call, *, paused: bool) -> Reply:
    target = call.gateway.registry.submittable(call.path_value("target"))
    await call.in_time(lambda: pause_target(call.gateway.store, target.name, paused=paused))
    return await _shown(call, target)


def _refuse_configured(call: Call, name: str) -> None:
    if call.gateway.registry.is_configured(name):
        raise WrongState(f"target {name} is defined in {call.gateway.settings.source} or in code: change it there")


async def _shown(call: Call, target: Target, status: int = 200, *, replay_id: str | None = None) -> Reply:
    states = await call.in_time(lambda: inspect_targets(call.gateway.store, [target.name]))
    known = call.gateway.registrations.known.get(target.name)
    shown = _render(target, states[target.name], known)
    return json_reply(shown | ({"replay_id": replay_id} if replay_id else {}), status)


def _render(target: Target, state: TargetState, known: Registered | None) -> dict[str, Any]:
    out: dict[str, Any] = {
        "name": target.name,
        "executor": target.executor.name,
        "source": "file" if known is None else "api",
        "paused": state.paused,
        "pending": state.pending,
    }
    if state.running is not None:
        out["running"] = state.running
    if state.blocked:
        out["blocked"] = state.blocked
    if state.disabled_ms:
        out["disabled_at"] = timestamp(state.disabled_ms)
    if target.lane is not None:
        out["lane"] = target.lane
    if target.limit is not None:
        out["limits"] = _limits(target.limit)
    if target.ordered:
        out["ordered"] = True
    out |= {"timeout": target.timeout_s, "retry": _retry(target.retry)}
    if target.breaker is not None:
        out["breaker"] = msgspec.to_builtins(target.breaker, enc_hook=float)
    if config := target.executor.describe(target.config):
        out["config"] = config
    if target.told is not None:
        out["callback"] = {"url": target.told.url.partition("?")[0], "events": target.told.events}
    if known is not None:
        out |= {"created_at": timestamp(known.created_ms), "updated_at": timestamp(known.updated_ms)}
    return out


def _retry(policy: RetryPolicy) -> dict[str, Any]:
    return {
        "policy": policy.policy,
        "max_attempts": policy.max_attempts,
        "base": float(policy.base),
        "cap": float(policy.cap),
        "gives_up_after": float(f"{patience_s(policy):.2g}"),
    }


def _limits(limits: KeyLimits) -> dict[str, Any]:
    out = {
        name: str(value) if isinstance(value, str) else value
        for name in ("rate", "burst", "quota", "concurrency")
        if (value := getattr(limits, name)) is not None
    }
    if isinstance(limits, Limits) and limits.per_key is not None:
        out["per_key"] = _limits(limits.per_key)
    return out
