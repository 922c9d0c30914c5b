"""Which plugins there are: built in, installed with an entry point, named in the configuration."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from gateway.errors import ConfigError, PluginError
from gateway.hooks import API_ATTRIBUTE, PLUGIN_API, PROJECT
from gateway.registry.builtins import BUILT_IN, import_builtins
from gateway.settings import Settings
from gateway.spelling import mend_name

Refuse = Callable[[PluginError], None]
"""What is done with a plugin that cannot be used: it raises, unless faults are being collected."""

Source = Literal["built-in", "entry point", "configuration"]


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin that was imported, and where from; `version` is empty where nothing tells it."""

    name: str
    source: Source
    version: str
    plugin: object


@dataclass(frozen=True, slots=True)
class _Offer:
    """A plugin that could be imported: `names` are those that `GATEWAY_PLUGINS` may call it by."""

    name: str
    names: tuple[str, ...]
    source: Source
    version: str
    load: Callable[[], object]


def stop(fault: PluginError) -> None:
    """Refuses by raising."""
    raise fault


def discover(settings: Settings, refuse: Refuse = stop) -> list[Found]:
    """Every plugin to register, imported, built-in ones first; refuses one that cannot be imported, by its name."""
    version = _own_version()
    found = [
        Found(f"{part}.{name}", "built-in", version, module)
        for part, names in BUILT_IN.items()
        for name, module in zip(names, import_builtins(part), strict=True)
    ]
    for offer in _chosen([*_entry_points(refuse), *_modules(settings)], settings):
        try:
            plugin = _import(offer)
            _check_api(offer, plugin)
        except PluginError as fault:
            refuse(fault)
            continue
        if not any(plugin is known.plugin for known in found):  # installed, and listed in the configuration too
            found.append(Found(offer.name, offer.source, offer.version, plugin))
    return found


def make_importable(settings: Settings) -> None:
    """Puts the working directory on the import path, first, as `python -m` does."""
    directory = str(settings.directory.resolve())
    if directory not in sys.path:
        sys.path.insert(0, directory)


@cache
def _own_version() -> str:
    try:
        return importlib.metadata.version("event-gateway")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _entry_points(refuse: Refuse) -> Iterator[_Offer]:
    seen: dict[str, str] = {}
    for point in importlib.metadata.entry_points(group=PROJECT):
        if seen.get(point.name) == point.value:  # one distribution can be on the path twice
            continue
        if point.name in seen:
            other = seen[point.name]
            refuse(
                PluginError(f"plugin {point.name}", f"offered by {other} and by {point.value}; uninstall one of them")
            )
            continue
        seen[point.name] = point.value
        version = point.dist.version if point.dist else ""
        yield _Offer(point.name, (point.name, point.module), "entry point", version, point.load)


def _modules(settings: Settings) -> Iterator[_Offer]:
    for name in dict.fromkeys(settings.plugins):
        yield _Offer(name, (name,), "configuration", "", _importer(name))


def _importer(name: str) -> Callable[[], object]:
    return lambda: importlib.import_module(name)


def _chosen(offers: list[_Offer], settings: Settings) -> list[_Offer]:
    """Those that `GATEWAY_PLUGINS` lets load."""
    only = settings.plugins_only
    if only is None:
        return offers
    known = [name for offer in offers for name in offer.names]
    for name in only:
        if name not in known:
            raise ConfigError("environment: GATEWAY_PLUGINS", f'there is no plugin "{name}"; {mend_name(name, known)}')
    return [offer for offer in offers if set(offer.names) & set(only)]


def _check_api(offer: _Offer, plugin: object) -> None:
    """Refuses a plugin that says it was written for a later API than ours."""
    wanted = getattr(plugin, API_ATTRIBUTE, PLUGIN_API)
    if not isinstance(wanted, int) or wanted > PLUGIN_API:
        detail = f"was written for plugin API {wanted}, and this gateway has {PLUGIN_API}; upgrade event-gateway"
        raise PluginError(f"plugin {offer.name}", detail)


def _import(offer: _Offer) -> object:
    try:
        return offer.load()
    except (Exception, SystemExit) as exc:  # whatever a plugin does when it is imported
        detail = f"cannot be imported: {type(exc).__name__}: {exc}"
        raise PluginError(f"plugin {offer.name}", f"{detail}; mend it, or take it out of the plugins") from exc
