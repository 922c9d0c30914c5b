"""`gateway config`: checks, shows and begins a configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from gateway.cli.cautions import cautions
from gateway.cli.environment import Imports, load_settings, read_instead, where_from
from gateway.cli.ports import check_ports_apart
from gateway.cli.printing import print_facts, print_json, print_table, printable
from gateway.cli.writing import beginning, named, sections, toml
from gateway.errors import ConfigError
from gateway.redis_url import parse_redis_url
from gateway.registry import Registry, Target
from gateway.registry.declared import with_declared
from gateway.registry.schedules import make_file_schedule
from gateway.registry.sources import make_trigger
from gateway.registry.targets import check_runnable, notices_target
from gateway.settings import Settings
from gateway.settings.loading import FILE
from gateway.settings.model import NoticeSettings
from gateway.tracing import check_tracing

app = typer.Typer(help="Checks, shows and begins a configuration.", add_completion=False, no_args_is_help=True)

File = Annotated[
    Path | None, typer.Argument(help="The file; left out: what GATEWAY_CONFIG names, else gateway.toml of this folder.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def check(file: File = None, imports: Imports = None, as_json: AsJson = False) -> None:
    """Reads the environment and gateway.toml, loads the plugins, and lets each executor look at its targets."""
    read_instead(file)
    settings = with_declared(load_settings(imports))
    found = list(faults(settings))
    warnings = [] if found else list(cautions(settings, Registry.build(msgspec.structs.replace(settings, imports=()))))
    if as_json:
        told = [{"place": fault.place, "detail": fault.detail} for fault in found]
        names = ("targets", "triggers", "schedules")
        print_json(
            {
                "well": not found,
                "faults": told,
                "warnings": warnings,
                **{name: len(getattr(settings, name)) for name in names},
            }
        )
    else:
        for fault in found:
            print(f"gateway: {fault}", file=sys.stderr)
    if found:
        raise typer.Exit(os.EX_CONFIG)
    if not as_json:
        for warning in warnings:
            print(f"gateway: {settings.source}: {warning}", file=sys.stderr)
        print(summary(settings, len(warnings)))


@app.command()
def show(file: File = None, imports: Imports = None, as_json: AsJson = False) -> None:
    """Prints what is in force and where it comes from; secrets are hidden."""
    read_instead(file)
    settings = with_declared(load_settings(imports))
    came = where_from()
    values = list(sections(settings))
    if as_json:
        keys = [{"section": s, "key": key, "value": value, "from": came[s, key]} for s, key, value in values]
        print_json({"source": settings.source, "redis": _redis(settings), "settings": keys, **named(settings)})
        return
    print_facts({"file": settings.source, "redis": _redis(settings)})
    rows = [(f"{s}.{key}", "" if value is None else toml(value), came[s, key]) for s, key, value in values]
    print_table(("key", "value", "from"), rows)
    for kind, tables in named(settings).items():
        for name, table in tables.items():
            print(f"{kind}.{name}  {printable(table)}")


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path(FILE),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Writes a gateway.toml that runs as it is, and names every key with its default."""
    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(beginning())
    except FileExistsError as exc:
        raise ConfigError(str(file), "is there already; give another name, or --force to write over it") from exc
    except OSError as exc:
        raise ConfigError(str(file), f"cannot be written: {exc.strerror}") from exc
    name = os.fsencode(file).decode(errors="backslashreplace")
    print_json({"written": name}) if as_json else print(f"wrote {name}; next: gateway up")


def _redis(settings: Settings) -> str:
    """Which Redis is meant, without its password."""
    if settings.redis_url is None:
        return "embedded"
    url = settings.redis_url.reveal()
    scheme, _, rest = url.partition("://")
    user, at, _ = rest.partition("?")[0].rpartition("@")
    login = f"{user.partition(':')[0]}:***@" if at else ""
    return f"{scheme}://{login}{parse_redis_url(url).shown}"


def faults(settings: Settings) -> Iterator[ConfigError]:
    """Ports that meet, tracing that is not supported, the first fault of each target, trigger and schedule, and notices
    for no target.

    Raises PluginError for a plugin that does not load.
    """
    try:
        check_ports_apart(settings.gateway, where_from())
    except ConfigError as exc:
        yield exc
    try:
        check_tracing(settings.otel, outside=settings.gateway.traces_from_outside)
    except ConfigError as exc:
        yield exc
    bare = msgspec.structs.replace(
        settings, targets={}, triggers={}, schedules={}, imports=(), notices=NoticeSettings()
    )
    registry = Registry.build(bare)
    targets: dict[str, Target] = {}
    for name, target in settings.targets.items():
        try:
            targets[name] = registry.make_target(name, target, settings.secrets)
            check_runnable(targets[name])
        except ConfigError as exc:
            yield exc
    try:
        notices_target(settings)
    except ConfigError as exc:
        yield exc
    yield from _faults_of_triggers(settings, registry)
    yield from _faults_of_schedules(settings, targets)


def _faults_of_triggers(settings: Settings, registry: Registry) -> Iterator[ConfigError]:
    lanes, secrets = settings.lanes.order, settings.secrets
    for name, trigger in settings.triggers.items():
        try:
            make_trigger(name, trigger, registry.verifiers, targets=settings.targets, lanes=lanes, secrets=secrets)
        except ConfigError as exc:
            yield exc


def _faults_of_schedules(settings: Settings, targets: dict[str, Target]) -> Iterator[ConfigError]:
    for name, schedule in settings.schedules.items():
        target = schedule.body.target
        if target in settings.targets and target not in targets:
            continue  # the target's own fault is told, and it would be taken for a missing one
        try:
            make_file_schedule(name, schedule, targets=targets, lanes=settings.lanes.order)
        except ConfigError as exc:
            yield exc


def summary(settings: Settings, warnings: int) -> str:
    """One line on what is configured: how many of each kind, or that there is no file."""
    kinds = {"target": len(settings.targets), "trigger": len(settings.triggers), "schedule": len(settings.schedules)}
    counts = ", ".join(_count(number, kind) for kind, number in kinds.items())
    end = _count(warnings, "warning") if warnings else "all well"
    if (settings.directory / settings.source).exists():
        return f"{settings.source}: {counts}, {end}"
    what = f"{counts}, {end}" if any(kinds.values()) else "defaults only"
    return f"no {settings.source} in {settings.directory}: {what}; `gateway config init` writes one"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
