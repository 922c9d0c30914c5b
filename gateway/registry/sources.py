"""Triggers: a configured table, checked against the verifier that it names and the targets that it feeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.errors import ConfigError, PluginError, SecretMissing
from gateway.expressions import ROOTS
from gateway.keys import NAME
from gateway.registry.targets import Target, check_lane
from gateway.registry.unread import unread_verifier
from gateway.routes import ITEM, Route, compile_route
from gateway.settings import (
    TRIGGER_KEYS,
    RouteSettings,
    SecretSource,
    TargetSettings,
    TriggerSettings,
    decode,
    join_place,
)
from gateway.spelling import mend_name
from gateway.triggers import Trigger
from gateway.verifier import Verifier


def make_trigger(
    name: str,
    settings: TriggerSettings,
    verifiers: Mapping[str, type[Verifier[Any]]],
    *,
    targets: Mapping[str, Target | TargetSettings],
    lanes: Sequence[str],
    secrets: SecretSource | None,
) -> Trigger:
    """The trigger of a configured table; raises ConfigError with the table's place."""
    place = settings.place
    routes = tuple(
        _make_route(route, join_place(place, f"routes[{at}]"), targets=targets, lanes=lanes)
        for at, route in enumerate(settings.routes)
    )
    kind = verifiers.get(settings.verifier)
    if kind is None:
        mend = mend_name(settings.verifier, sorted(verifiers))
        raise ConfigError(join_place(place, "verifier"), f'no verifier named "{settings.verifier}"; {mend}')
    try:
        config = decode(settings.config, kind.Config, place, secrets=secrets, beside=TRIGGER_KEYS)
    except SecretMissing as missing:
        if secrets is None or secrets.required:
            raise
        return Trigger(name, unread_verifier(kind, missing), routes, settings)
    return Trigger(name, _make_verifier(kind, config, place), routes, settings)


def _make_route(
    route: RouteSettings, place: str, *, targets: Mapping[str, Target | TargetSettings], lanes: Sequence[str]
) -> Route:
    target = targets.get(route.target)
    if target is None:
        mend = mend_name(route.target, list(targets))
        raise ConfigError(join_place(place, "target"), f'no target named "{route.target}"; {mend}')
    for name in ("lane", "delay") if target.ordered else ():
        if getattr(route, name) is not None:
            what = f'target "{route.target}" is ordered, and its jobs run in the order in which they came'
            raise ConfigError(join_place(place, name), f"{what}; leave {name} out")
    _check_lane_name(route.lane, lanes, place)
    return compile_route(
        place,
        target=route.target,
        when=route.when,
        payload=route.payload,
        key=route.key,
        lane=route.lane,
        delay=route.delay,
        each=route.each,
        id=route.id,
        lanes=lanes,
    )


def _check_lane_name(lane: str | None, lanes: Sequence[str], place: str) -> None:
    """What reads like a lane's name and not like an expression must be one."""
    if lane is not None and NAME.match(lane) and not lane.startswith(tuple(f"{root}." for root in (*ROOTS, ITEM))):
        check_lane(lane, lanes, place)


def _make_verifier(kind: type[Verifier[Any]], config: Any, place: str) -> Verifier[Any]:
    try:
        return kind(config)
    except ValueError as exc:
        raise ConfigError(place, str(exc)) from exc
    except Exception as exc:
        raise PluginError(f"verifier {kind.name}", f"cannot be made for {place}: {type(exc).__name__}") from exc
