"""Registers plugins with pluggy, and takes what they offer; whatever cannot be used stops start-up, by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pluggy

from gateway.errors import PluginError
from gateway.executor import Executor
from gateway.hooks import PROJECT, HookSpecs
from gateway.keys import NAME
from gateway.registry.discovery import Found, Source
from gateway.settings import TARGET_KEYS, TRIGGER_KEYS, Settings, field_names, mend_name
from gateway.verifier import Verifier

HOOKS = ("register_executors", "register_verifiers", "retry_delay", "job_event")
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


@dataclass(frozen=True, slots=True)
class Call:
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


def register(found: Sequence[Found]) -> dict[str, list[Call]]:
    """Every hook's implementations in the order in which pluggy would call them; raises PluginError."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(HookSpecs)
    for each in found:
        try:
            manager.register(each.plugin, name=each.name)
        except (ValueError, pluggy.PluginValidationError) as exc:
            raise PluginError(f"plugin {each.name}", f"cannot be registered: {exc}") from exc
    _refuse_misspelt(manager)
    calls = {hook: list(_calls(manager, hook)) for hook in HOOKS}
    for each in found:
        if not any(call.plugin == each.name for hook in HOOKS for call in calls[hook]):
            raise PluginError(f"plugin {each.name}", f"implements no hook; mark one with @hookimpl: {', '.join(HOOKS)}")
    return calls


def collect(found: Sequence[Found], calls: dict[str, list[Call]], settings: Settings) -> Offers:
    """The executors and verifiers of all plugins, in the order of `found`; raises PluginError."""
    offers = Offers()
    order = {each.name: at for at, each in enumerate(found)}
    for call in sorted(calls["register_executors"], key=lambda call: order[call.plugin]):
        for executor in _offered(call, settings):
            _check_executor(executor, call.plugin)
            _take(offers.executors, executor.name, call.plugin, what="executor", offer=executor)
    for call in sorted(calls["register_verifiers"], key=lambda call: order[call.plugin]):
        for verifier in _offered(call, settings):
            _check_verifier(verifier, call.plugin)
            _take(offers.verifiers, verifier.name, call.plugin, what="verifier", offer=verifier)
    return offers


def describe(found: Sequence[Found], calls: dict[str, list[Call]], offers: Offers) -> tuple[LoadedPlugin, ...]:
    """The plugins with what each brought."""
    return tuple(
        LoadedPlugin(
            name=each.name,
            source=each.source,
            executors=tuple(name for name, (plugin, _) in offers.executors.items() if plugin == each.name),
            verifiers=tuple(name for name, (plugin, _) in offers.verifiers.items() if plugin == each.name),
            hooks=tuple(hook for hook in HOOKS if any(call.plugin == each.name for call in calls[hook])),
            version=each.version,
        )
        for each in found
    )


def _refuse_misspelt(manager: pluggy.PluginManager) -> None:
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as exc:
        found = _UNKNOWN_HOOK.match(str(exc))
        detail = f'there is no hook "{found[1]}"; {mend_name(found[1], HOOKS)}' if found else str(exc)
        raise PluginError(f"plugin {manager.get_name(exc.plugin)}", detail) from exc


def _calls(manager: pluggy.PluginManager, hook: str) -> Iterator[Call]:
    for each in reversed(getattr(manager.hook, hook).get_hookimpls()):
        place = f"plugin {each.plugin_name}"
        if each.wrapper or each.hookwrapper:
            raise PluginError(place, f"{hook} is a wrapper; hooks are called one by one, so write a plain function")
        if inspect.iscoroutinefunction(each.function):
            raise PluginError(place, f"{hook} is an async function; hooks are synchronous, so write a plain one")
        yield Call(each.plugin_name, hook, each.function, tuple(each.argnames))


def _offered(call: Call, settings: Settings) -> list[Any]:
    try:
        offered = call(settings=settings)
        return [*offered]
    except Exception as exc:
        detail = f"{call.hook} failed: {type(exc).__name__}: {exc}"
        raise PluginError(f"plugin {call.plugin}", f"{detail}; it must return a list") from exc


def _check_executor(executor: object, plugin: str) -> None:
    if isinstance(executor, type):
        detail = f"offers the class {executor.__name__} as an executor; offer an instance, {executor.__name__}()"
        raise PluginError(f"plugin {plugin}", detail)
    if not isinstance(executor, Executor):
        raise PluginError(f"plugin {plugin}", f"offers {executor!r} as an executor; it must derive from Executor")
    _check_parts(executor, type(executor).__name__, plugin=plugin, taken=TARGET_KEYS)


def _check_verifier(verifier: object, plugin: str) -> None:
    if not (isinstance(verifier, type) and issubclass(verifier, Verifier)) or inspect.isabstract(verifier):
        detail = f"offers {verifier!r} as a verifier; it must be a class that derives from Verifier and has verify()"
        raise PluginError(f"plugin {plugin}", detail)
    _check_parts(verifier, verifier.__name__, plugin=plugin, taken=TRIGGER_KEYS)


def _check_parts(offer: object, who: str, *, plugin: str, taken: Iterable[str]) -> None:
    """Refuses a missing name, and a Config that a table of the configuration could not be read into."""
    name, config = getattr(offer, "name", None), getattr(offer, "Config", None)
    if not isinstance(name, str) or NAME.match(name) is None:
        raise PluginError(f"plugin {plugin}", f'{who}.name is {name!r}; give it a name, such as name = "mail"')
    if not (isinstance(config, type) and issubclass(config, msgspec.Struct)):
        raise PluginError(f"plugin {plugin}", f"{who}.Config is {config!r}; it must be a subclass of msgspec.Struct")
    try:
        msgspec.json.Decoder(config)
    except (TypeError, NameError) as exc:
        raise PluginError(f"plugin {plugin}", f"{who}.Config cannot be read from a table: {exc}") from exc
    if clash := sorted(set(field_names(config)) & set(taken)):
        raise PluginError(f"plugin {plugin}", f'{who}.Config has the field "{clash[0]}", which is taken; rename it')


def _take(table: dict[str, Any], name: str, plugin: str, *, what: str, offer: object) -> None:
    if name in table:
        detail = f'offers the {what} "{name}", which plugin {table[name][0]} offers already; leave one of them out'
        raise PluginError(f"plugin {plugin}", detail)
    table[name] = (plugin, offer)
