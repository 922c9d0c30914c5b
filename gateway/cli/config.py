"""`gateway config`: is the configuration right?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import msgspec
import typer

from gateway.cli.environment import Imports, load_settings
from gateway.errors import ConfigError
from gateway.registry import Registry, Target
from gateway.registry.declared import with_declared
from gateway.registry.discovery import make_importable
from gateway.registry.schedules import make_file_schedule
from gateway.registry.sources import make_trigger
from gateway.registry.targets import check_runnable
from gateway.settings import Settings

app = typer.Typer(help="Checks the configuration.", no_args_is_help=True)


@app.callback()
def config() -> None:
    """Checks the configuration."""


@app.command()
def check(imports: Imports = None) -> None:
    """Reads the environment and gateway.toml, loads the plugins, and lets each executor look at its targets."""
    settings = load_settings(imports)
    make_importable(settings)
    settings = with_declared(settings)
    found = list(faults(settings))
    for fault in found:
        print(f"gateway: {fault}", file=sys.stderr)
    if found:
        raise typer.Exit(os.EX_CONFIG)
    counts = (
        _count(len(settings.targets), "target"),
        _count(len(settings.triggers), "trigger"),
        _count(len(settings.schedules), "schedule"),
    )
    print(f"{settings.source}: {', '.join(counts)}, all well")


def faults(settings: Settings) -> Iterator[ConfigError]:
    """The first fault of every target, trigger and schedule; raises PluginError for a plugin that does not load."""
    registry = Registry.build(msgspec.structs.replace(settings, targets={}, triggers={}, schedules={}, imports=()))
    targets: dict[str, Target] = {}
    for name, target in settings.targets.items():
        try:
            targets[name] = registry.make_target(name, target, settings.secrets)
            check_runnable(targets[name])
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


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
