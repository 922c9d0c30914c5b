"""Targets that imported modules declare with `@gateway.target`, beside those of the configuration file."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import msgspec

from gateway.declared import Declared, declared_in
from gateway.errors import ConfigError
from gateway.registry.discovery import make_importable
from gateway.settings import Settings, TargetSettings, read_target

EXECUTOR = "python"


def with_declared(settings: Settings) -> Settings:
    """The settings with the targets that their `imports` declare; imports those modules, also from the working
    directory, which goes on the import path. Raises ConfigError."""
    make_importable(settings)
    targets: dict[str, TargetSettings] = dict(settings.targets)
    for module in settings.imports:
        found = list(_targets(_import(module)))
        if not found:
            raise ConfigError(_place(module), 'declares no target; mark its functions with @gateway.target("name")')
        for place, declared in found:
            _add(targets, _read(place, declared))
    return msgspec.structs.replace(settings, targets=targets)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as exc:  # whatever a user's module does when it is imported
        raise ConfigError(_place(name), f"cannot be imported: {type(exc).__name__}: {exc}") from exc


def _targets(module: ModuleType) -> Iterator[tuple[str, Declared]]:
    """Those of the module and of what it has imported of its own submodules, each with its `module:function`."""
    inner = f"{module.__name__}."
    for name, each in [(module.__name__, module), *sys.modules.items()]:
        if each is not None and (each is module or name.startswith(inner)) and name != "__main__":
            for attribute, declared in declared_in(each):
                yield f"{name}:{attribute}", declared


def _read(place: str, declared: Declared) -> tuple[str, TargetSettings]:
    table = {"executor": EXECUTOR, "callable": place, **declared.table}
    return declared.name, read_target(declared.name, table, f"@gateway.target of {place}")


def _add(targets: dict[str, TargetSettings], read: tuple[str, TargetSettings]) -> None:
    name, found = read
    known = targets.setdefault(name, found)
    if known is found:
        return
    if not _is_same(known, found):
        raise ConfigError(found.place, f'the target "{name}" is there already, by {known.place}; rename one of them')


def _is_same(one: TargetSettings, other: TargetSettings) -> bool:
    """Whether two are one function that two modules show."""
    places = [str(each.config.get("callable", "")) for each in (one, other)]
    functions = [getattr(sys.modules.get(module), name, None) for module, _, name in (p.partition(":") for p in places)]
    return functions[0] is not None and functions[0] is functions[1]


def _place(module: str) -> str:
    return f"imports: {module}"
