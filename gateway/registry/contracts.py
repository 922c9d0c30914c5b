"""Whether what a plugin offers keeps its contract: its methods, its name, its Config."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import FunctionType

import msgspec

from gateway.errors import PluginError
from gateway.executor import Executor
from gateway.keys import NAME
from gateway.settings import TARGET_KEYS, TRIGGER_KEYS, field_names
from gateway.verifier import Verifier

AWAITABLE = ("Awaitable", "Coroutine", "Future", "Task")


def check_executor(executor: object, plugin: str) -> None:
    """Raises PluginError, by the plugin, for what is no executor that could be used."""
    if isinstance(executor, type):
        detail = f"offers the class {executor.__name__} as an executor; offer an instance, {executor.__name__}()"
        raise PluginError(f"plugin {plugin}", detail)
    if not isinstance(executor, Executor):
        raise PluginError(f"plugin {plugin}", f"offers {executor!r} as an executor; it must derive from Executor")
    _check_methods(executor, Executor, type(executor).__name__, plugin=plugin)
    _check_parts(executor, type(executor).__name__, plugin=plugin, taken=TARGET_KEYS)


def check_verifier(verifier: object, plugin: str) -> None:
    """The same for a class of verifiers."""
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
