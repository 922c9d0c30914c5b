"""Registers plugins with pluggy, and takes what they offer; whatever cannot be used stops start-up, by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pluggy

from gateway.errors import PluginError
from gateway.executor import Executor
from gateway.hooks import PROJECT, HookSpecs
from gateway.registry.contracts import check_executor, check_verifier
from gateway.registry.discovery import Found, Refuse, Source, discover, make_importable, stop
from gateway.settings import Settings
from gateway.spelling import mend_name
from gateway.verifier import Verifier

HOOKS = ("register_executors", "register_verifiers", "retry_delay", "job_event")
GIVEN = "(given)"
"""Stands for the plugin of what was handed over as it is."""

_UNKNOWN_HOOK = re.compile(r"unknown hook '(\w+)'")


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin as `gateway plugins` shows it: its name, where it came from, and what it brings."""

    name: str
    source: Source
    executors: tuple[str, ...]
    verifiers: tuple[str, ...]
    hooks: tuple[str, ...]
    version: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class HookCall:
    """One plugin's implementation of one hook; `takes` are the arguments that it asks for."""

    plugin: str
    hook: str
    function: Callable[..., Any]
    takes: tuple[str, ...]

    def __call__(self, **arguments: Any) -> Any:
        return self.function(**{name: arguments[name] for name in self.takes})


@dataclass(slots=True)
class Offers:
    """What the plugins offer, each name with the plugin that it is from."""

    executors: dict[str, tuple[str, Executor[Any]]] = field(default_factory=dict)
    verifiers: dict[str, tuple[str, type[Verifier[Any]]]] = field(default_factory=dict)

    def add(self, executor: Executor[Any]) -> None:
        """An executor that no plugin offers; raises PluginError as if one did."""
        check_executor(executor, GIVEN)
        self.executors[executor.name] = (GIVEN, executor)


def register(found: Sequence[Found], refuse: Refuse = stop) -> dict[str, list[HookCall]]:
    """Every hook's implementations in the order in which pluggy would call them; refuses plugins by name."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(HookSpecs)
    for each in found:
        try:
            manager.register(each.plugin, name=each.name)
        except (ValueError, pluggy.PluginValidationError) as exc:
            refuse(PluginError(f"plugin {each.name}", f"cannot be registered: {exc}"))
    _refuse_misspelt(manager, refuse)
    for hook in HOOKS:
        _refuse_unfit(manager, hook, refuse)
    calls = {hook: list(_calls(manager, hook)) for hook in HOOKS}
    for each in found:
        if manager.has_plugin(each.name) and not any(
            call.plugin == each.name for hook in HOOKS for call in calls[hook]
        ):
            detail = f"implements no hook; mark one with @hookimpl: {', '.join(HOOKS)}"
            refuse(PluginError(f"plugin {each.name}", detail))
    return calls


def collect(
    found: Sequence[Found], calls: dict[str, list[HookCall]], settings: Settings, refuse: Refuse = stop
) -> Offers:
    """The executors and verifiers of all plugins, in the order of `found`; refuses what cannot be used, by plugin."""
    offers = Offers()
    order = {each.name: at for at, each in enumerate(found)}
    for kind, check, table in (
        ("executor", check_executor, offers.executors),
        ("verifier", check_verifier, offers.verifiers),
    ):
        for call in sorted(calls[f"register_{kind}s"], key=lambda call: order[call.plugin]):
            try:
                for offer in _offered(call, settings):
                    check(offer, call.plugin)
                    _take(table, offer.name, call.plugin, what=kind, offer=offer)
            except PluginError as fault:
                refuse(fault)
    return offers


def survey(settings: Settings) -> tuple[tuple[LoadedPlugin, ...], tuple[PluginError, ...]]:
    """The plugins that can be used, and what is wrong with those that cannot; raises nothing for a plugin's sake."""
    make_importable(settings)
    faults: list[PluginError] = []
    found = discover(settings, faults.append)
    calls = register(found, faults.append)
    offers = collect(found, calls, settings, faults.append)
    failed = {fault.place.removeprefix("plugin ") for fault in faults}
    return tuple(each for each in describe(found, calls, offers) if each.name not in failed), tuple(faults)


def describe(found: Sequence[Found], calls: dict[str, list[HookCall]], offers: Offers) -> tuple[LoadedPlugin, ...]:
    """The plugins with what each brought."""
    return tuple(
        LoadedPlugin(
            name=each.name,
            source=each.source,
            executors=tuple(name for name, (plugin, _) in offers.executors.items() if plugin == each.name),
            verifiers=tuple(name for name, (plugin, _) in offers.verifiers.items() if plugin == each.name),
            hooks=tuple(hook for hook in HOOKS if any(call.plugin == each.name for call in calls[hook])),
            version=each.version,
            path=str(getattr(each.plugin, "__file__", None) or ""),
        )
        for each in found
    )


def _refuse_misspelt(manager: pluggy.PluginManager, refuse: Refuse) -> None:
    while True:
        try:
            manager.check_pending()
            return
        except pluggy.PluginValidationError as exc:
            found = _UNKNOWN_HOOK.match(str(exc))
            detail = f'there is no hook "{found[1]}"; {mend_name(found[1], HOOKS)}' if found else str(exc)
            name = manager.get_name(exc.plugin)
            manager.unregister(exc.plugin)
            refuse(PluginError(f"plugin {name}", detail))


def _refuse_unfit(manager: pluggy.PluginManager, hook: str, refuse: Refuse) -> None:
    """Wrappers and async functions, which nobody would call as they want to be."""
    for each in list(getattr(manager.hook, hook).get_hookimpls()):
        why = ""
        if each.wrapper or each.hookwrapper:
            why = f"{hook} is a wrapper; hooks are called one by one, so write a plain function"
        elif inspect.iscoroutinefunction(each.function):
            why = f"{hook} is an async function; hooks are synchronous, so write a plain one"
        if why:
            manager.unregister(each.plugin)
            refuse(PluginError(f"plugin {each.plugin_name}", why))


def _calls(manager: pluggy.PluginManager, hook: str) -> Iterator[HookCall]:
    for each in reversed(getattr(manager.hook, hook).get_hookimpls()):
        yield HookCall(each.plugin_name, hook, each.function, tuple(each.argnames))


def _offered(call: HookCall, settings: Settings) -> list[Any]:
    try:
        offered = call(settings=settings)
        if isinstance(offered, Iterable):
            return [*offered]
    except (Exception, SystemExit) as exc:
        raise PluginError(f"plugin {call.plugin}", f"{call.hook} failed: {type(exc).__name__}: {exc}") from exc
    raise PluginError(f"plugin {call.plugin}", f"{call.hook} returned {type(offered).__name__}; it must return a list")


def _take(table: dict[str, Any], name: str, plugin: str, *, what: str, offer: object) -> None:
    if name in table:
        detail = f'offers the {what} "{name}", which plugin {table[name][0]} offers already; leave one of them out'
        raise PluginError(f"plugin {plugin}", detail)
    table[name] = (plugin, offer)
