"""Registers plugins with pluggy, and takes what they offer; whatever cannot be used stops start-up, by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import msgspec
import pluggy

from gateway.errors import PluginError
from gateway.executor import Executor
from gateway.hooks import PROJECT, HookSpecs
from gateway.keys import NAME
from gateway.registry.discovery import Found, Refuse, Source, discover, make_importable, stop
from gateway.settings import TARGET_KEYS, TRIGGER_KEYS, Settings, field_names
from gateway.spelling import mend_name
from gateway.verifier import Verifier

HOOKS = ("register_executors", "register_verifiers", "retry_delay", "job_event")
AWAITABLE = ("Awaitable", "Coroutine", "Future", "Task")
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

    def add(self, executor: Executor[Any]) -> None:
        """An executor that no plugin offers; raises PluginError as if one did."""
        _check_executor(executor, GIVEN)
        self.executors[executor.name] = (GIVEN, executor)


def register(found: Sequence[Found], refuse: Refuse = stop) -> dict[str, list[Call]]:
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


def collect(found: Sequence[Found], calls: dict[str, list[Call]], settings: Settings, refuse: Refuse = stop) -> Offers:
    """The executors and verifiers of all plugins, in the order of `found`; refuses what cannot be used, by plugin."""
    offers = Offers()
    order = {each.name: at for at, each in enumerate(found)}
    for kind, check, table in (
        ("executor", _check_executor, offers.executors),
        ("verifier", _check_verifier, offers.verifiers),
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


def _calls(manager: pluggy.PluginManager, hook: str) -> Iterator[Call]:
    for each in reversed(getattr(manager.hook, hook).get_hookimpls()):
        yield Call(each.plugin_name, hook, each.function, tuple(each.argnames))


def _offered(call: Call, settings: Settings) -> list[Any]:
    try:
        offered = call(settings=settings)
        if isinstance(offered, Iterable):
            return [*offered]
    except (Exception, SystemExit) as exc:
        raise PluginError(f"plugin {call.plugin}", f"{call.hook} failed: {type(exc).__name__}: {exc}") from exc
    raise PluginError(f"plugin {call.plugin}", f"{call.hook} returned {type(offered).__name__}; it must return a list")


def _check_executor(executor: object, plugin: str) -> None:
    if isinstance(executor, type):
        detail = f"offers the class {executor.__name__} as an executor; offer an instance, {executor.__name__}()"
        raise PluginError(f"plugin {plugin}", detail)
    if not isinstance(executor, Executor):
        raise PluginError(f"plugin {plugin}", f"offers {executor!r} as an executor; it must derive from Executor")
    _check_methods(executor, Executor, type(executor).__name__, plugin=plugin)
    _check_parts(executor, type(executor).__name__, plugin=plugin, taken=TARGET_KEYS)


def _check_verifier(verifier: object, plugin: str) -> None:
    if not (isinstance(verifier, type) and issubclass(verifier, Verifier)) or inspect.isabstract(verifier):
        detail = f"offers {verifier!r} as a verifier; it must be a class that derives from Verifier and has verify()"
        raise PluginError(f"plugin {plugin}", detail)
    _check_methods(verifier, Verifier, verifier.__name__, plugin=plugin)
    _check_parts(verifier, verifier.__name__, plugin=plugin, taken=TRIGGER_KEYS)


def _check_methods(offer: object, contract: type, who: str, *, plugin: str) -> None:
    """Refuses a method that could not be called as the contract's: by its parameters, or for being async or not."""
    for name, model in inspect.getmembers_static(contract, inspect.isfunction):
        if name.startswith("_"):
            continue
        problem = _awaiting(offer, name, model) or _parameters(offer, name, model)
        if problem:
            raise PluginError(f"plugin {plugin}", f"{who}.{name} {problem}")


def _awaiting(offer: object, name: str, model: FunctionType) -> str:
    """What is wrong with a method that is async where the contract's is not, or gives nothing to await where it does;
    one that a decorator has made, or that says by its annotation that it gives something, is taken at its word."""
    method = getattr(offer, name)
    if not inspect.iscoroutinefunction(model):
        is_async = inspect.iscoroutinefunction(method)
        return f"is async; make it `def {name}`, which may not wait for anything" if is_async else ""
    function = getattr(method, "__func__", method)
    is_decorated = getattr(function, "__name__", "") != name or hasattr(function, "__wrapped__")
    if is_decorated or inspect.iscoroutinefunction(function):
        return ""
    returns = str(function.__annotations__.get("return", ""))
    if any(kind in returns for kind in AWAITABLE):
        return ""
    return f"is not async; make it `async def {name}`, and run what blocks by `await asyncio.to_thread(…)`"


def _parameters(offer: object, name: str, model: FunctionType) -> str:
    """What is wrong with a method that does not take what the contract's takes."""
    _, *wanted = inspect.signature(model).parameters.values()
    named = [each.name for each in wanted if each.kind is each.KEYWORD_ONLY]
    own = isinstance(offer, type) and not isinstance(inspect.getattr_static(offer, name), staticmethod | classmethod)
    try:
        signature = inspect.signature(getattr(offer, name), follow_wrapped=False)
        signature.bind(*([None] * (own + len(wanted) - len(named))), **dict.fromkeys(named))
    except TypeError as exc:
        given = ", ".join(["self", *(f"{'*, ' if each.name in named else ''}{each.name}" for each in wanted)])
        kind = "async def" if inspect.iscoroutinefunction(model) else "def"
        return f"cannot be called as it will be ({exc}); make it `{kind} {name}({given})`"
    except ValueError:  # it does not say what it takes
        return ""
    return ""


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
