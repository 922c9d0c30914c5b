"""Reads the configuration: one file, with the environment over it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from gateway.errors import ConfigError, SecretMissing
from gateway.settings.decoding import decode, join_place
from gateway.settings.environment import (
    CONFIG,
    OTEL,
    Override,
    imports,
    is_module,
    overrides,
    plugins_only,
    redis_url,
)
from gateway.settings.model import (
    EgressSettings,
    GatewaySettings,
    LaneSettings,
    NoticeSettings,
    RetentionSettings,
    Settings,
)
from gateway.settings.secrets import SecretSource
from gateway.settings.tables import read_schedule, read_target, read_trigger

S = TypeVar("S", bound=msgspec.Struct)
R = TypeVar("R", covariant=True)

FILE = "gateway.toml"

_BARE = re.compile(r"[A-Za-z0-9_\-]+\Z", re.ASCII)
_MOST_LEVELS = 100
"""Of tables and lists in each other: a payload has 64."""

_TOML_AT = re.compile(r"(.*) \(at line (\d+), column (\d+)\)\Z", re.DOTALL)


class _Read(Protocol[R]):
    def __call__(self, name: str, table: object, place: str, *, secrets: SecretSource | None) -> R: ...


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file's top level; what is inside each table is read on its own, so that a fault names its place."""

    plugins: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    gateway: dict[str, Any] = {}
    egress: dict[str, Any] = {}
    lanes: dict[str, Any] = {}
    retention: dict[str, Any] = {}
    notices: dict[str, Any] = {}
    targets: dict[str, Any] = {}
    triggers: dict[str, Any] = {}
    schedules: dict[str, Any] = {}


def load(environ: Mapping[str, str], directory: Path, *, secrets_required: bool = True) -> Settings:
    """The settings from `environ` over `gateway.toml` in `directory`, or the file that `GATEWAY_CONFIG` names.

    For a process that neither serves nor signs, `secrets_required` may be false: keys whose secret is missing are then
    left out, and targets and triggers lack only what needs theirs.

    Raises ConfigError for whatever is wrong, with the place and the mend.
    """
    source, table = read_file(environ, directory)
    document = decode(table, _Document, source)
    _check_modules("plugins", document.plugins, source)
    _check_modules("imports", document.imports, source)
    over = overrides(environ, set(named_variables(table)))
    reader = _Reader(source, over, SecretSource(environ, directory, secrets_required))
    settings = Settings(
        plugins=document.plugins,
        imports=tuple(dict.fromkeys((*document.imports, *imports(environ)))),
        plugins_only=plugins_only(environ),
        redis_url=redis_url(environ),
        gateway=reader.section("gateway", document.gateway, GatewaySettings),
        egress=reader.section("egress", document.egress, EgressSettings),
        lanes=reader.section("lanes", document.lanes, LaneSettings),
        retention=reader.section("retention", document.retention, RetentionSettings),
        notices=reader.section("notices", document.notices, NoticeSettings),
        targets=reader.named("targets", document.targets, read_target),
        triggers=reader.named("triggers", document.triggers, read_trigger),
        schedules=reader.named("schedules", document.schedules, read_schedule),
        otel={name: environ[name] for name in OTEL if name in environ},
        source=source,
        variables={f"{section}.{key}": override.variable for (section, key), override in over.items()},
        directory=directory,
        secrets=reader.secrets,
    )
    if "lanes.order" in settings.variables:
        _check_lanes_kept(settings, document.lanes.get("order", LaneSettings().order))
    return settings


def _check_lanes_kept(settings: Settings, own: object) -> None:
    """Raises ConfigError where a variable drops a lane of the file's `own`, and something in the file is in it."""
    for place, lane in _lanes_named(settings):
        if isinstance(own, list | tuple) and lane in own and lane not in settings.lanes.order:
            there = ", ".join(settings.lanes.order)
            raise ConfigError(
                settings.place("lanes.order"), f'has no lane "{lane}", which {place} names; it has: {there}'
            )


def _lanes_named(settings: Settings) -> Iterator[tuple[str, str | None]]:
    """The lanes that the file's tables are in, each with its place; a route's may be an expression."""
    for target in settings.targets.values():
        yield join_place(target.place, "lane"), target.lane
    for trigger in settings.triggers.values():
        for at, route in enumerate(trigger.routes):
            yield join_place(trigger.place, f"routes[{at}].lane"), route.lane
    for schedule in settings.schedules.values():
        yield join_place(schedule.place, "lane"), schedule.body.lane


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the parts of one document, whose name in messages is `source`."""

    source: str
    over: Mapping[tuple[str, str], Override]
    secrets: SecretSource

    def section(self, name: str, table: dict[str, Any], kind: type[S]) -> S:
        """A section, with what the environment sets in it; a fault there names the variable."""
        over = {key: override for (section, key), override in self.over.items() if section == name}
        place = join_place(self.source, name)
        merged = table | {key: override.value for key, override in over.items()}
        try:
            return decode(merged, kind, place, secrets=self.secrets)
        except ConfigError as exc:
            path = exc.place.removeprefix(place).strip(".")
            key = re.split(r"[.\[]", path, maxsplit=1)[0]
            if isinstance(exc, SecretMissing) and not self.secrets.required:
                return self.section(name, {each: value for each, value in table.items() if each != key}, kind)
            if key in over:
                raise ConfigError(f"environment: {over[key].variable}", exc.detail) from exc
            if not over or not self._fits(table, kind):
                raise
            variables = ", ".join(override.variable for override in over.values())
            raise ConfigError(f"environment: {variables}", f"{name}.{path}: {exc.detail}") from exc

    def _fits(self, table: dict[str, Any], kind: type[S]) -> bool:
        """Whether the file's own part is right, so that what is wrong comes of the variables."""
        try:
            decode(table, kind, "", secrets=self.secrets)
        except ConfigError:
            return False
        return True

    def named(self, section: str, tables: dict[str, Any], read: _Read[S]) -> dict[str, S]:
        """The tables `[section.<name>]` by name."""
        place = join_place(self.source, section)
        return {
            name: read(name, table, join_place(place, name if _BARE.match(name) else f'"{name}"'), secrets=self.secrets)
            for name, table in tables.items()
        }


def read_file(environ: Mapping[str, str], directory: Path) -> tuple[str, dict[str, Any]]:
    """The file's name for messages, and its table; no `gateway.toml` at all is an empty one."""
    named = environ.get(CONFIG, "").strip()
    source = named or FILE
    text = ""
    try:
        text = (directory / source).read_bytes().decode("utf-8-sig")
        return source, _not_too_deep(tomllib.loads(text))
    except FileNotFoundError as exc:
        if not named:
            return source, {}
        raise ConfigError(f"environment: {CONFIG}", f"there is no file {named}; unset it, or make the file") from exc
    except OSError as exc:
        raise ConfigError(source, f"cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(source, f"is not UTF-8 text (byte {exc.start})") from exc
    except tomllib.TOMLDecodeError as exc:
        raise _syntax_error(source, str(exc), text) from exc
    except ValueError as exc:  # a number longer than Python reads
        raise ConfigError(source, "holds a number of more than 4300 digits") from exc
    except RecursionError as exc:
        raise ConfigError(source, "is nested too deep") from exc


def _not_too_deep(table: dict[str, Any]) -> dict[str, Any]:
    """The table; RecursionError if it is too deep for those who read on: dotted keys nest without a call each."""
    level: list[object] = [table]
    for _ in range(_MOST_LEVELS):
        if not level:
            return table
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list))]
        level = [value for values in inner for value in values]
    raise RecursionError


def _syntax_error(source: str, message: str, text: str) -> ConfigError:
    if found := _TOML_AT.match(message):
        at = text.replace("\r\n", "\n").split("\n")[int(found[2]) - 1][int(found[3]) - 1 :]
        bare = found[1] == "Invalid value" and at[:1].isalpha()
        mend = '; a text stands in quotes: key = "text"' if bare else ""
        return ConfigError(f"{source}: line {found[2]}, column {found[3]}", f"not TOML: {found[1]}{mend}")
    return ConfigError(source, f"not TOML: {message}")


def named_variables(value: object) -> Iterator[str]:
    """Every NAME of an `{ env = "NAME" }` anywhere in a document."""
    if isinstance(value, dict):
        if list(value) == ["env"] and isinstance(value["env"], str):
            yield value["env"]
        for inner in value.values():
            yield from named_variables(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from named_variables(inner)


def _check_modules(key: str, names: tuple[str, ...], source: str) -> None:
    for at, name in enumerate(names):
        if not is_module(name):
            raise ConfigError(join_place(source, f"{key}[{at}]"), f'{name!r} is not a module; write "package.module"')
