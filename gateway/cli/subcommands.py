"""The subcommands by name: each is imported when it is run, since most starts need one and all cost half a second."""

from __future__ import annotations

import copy
import importlib
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_SAID_BEFORE = "Value error, "
"""What the library that reads values puts before what is wrong with one."""


@dataclass(frozen=True, slots=True)
class Subcommand:
    """Where a subcommand is, a Typer application or a function, and its first line of help."""

    module: str
    help: str
    name: str = "app"


SUBCOMMANDS: dict[str, Subcommand] = {
    "up": Subcommand("up", "Everything in one: an embedded Valkey, a gateway and a dispatcher.", "up"),
    "serve": Subcommand("serve", "The HTTP side: takes jobs and webhooks in.", "serve"),
    "dispatch": Subcommand("dispatch", "The working side: claims jobs and runs them.", "dispatch"),
    "jobs": Subcommand("jobs", "Submits jobs, looks at them, waits for them, cancels them."),
    "dlq": Subcommand("dlq", "The dead-letter queue: looks through it, sends jobs back, purges them."),
    "targets": Subcommand("targets", "Lists, shows, registers, tries out, pauses and resumes targets."),
    "triggers": Subcommand("triggers", "Lists, shows and registers triggers, and sends one a delivery."),
    "hook-url": Subcommand("triggers", "Prints the URL to paste into the provider's form.", "hook_url"),
    "schedules": Subcommand("schedules", "Defines, lists, shows, pauses, resumes, runs and deletes schedules."),
    "lanes": Subcommand("lanes", "Lists, pauses and resumes lanes."),
    "apikeys": Subcommand("apikeys", "Makes, lists and deletes API keys."),
    "signing-keys": Subcommand("signing_keys", "Shows the keys that callbacks verify with, and changes them."),
    "stats": Subcommand("stats", "Prints what waits, runs and is kept, and what happened so far.", "stats"),
    "top": Subcommand("top", "Shows lanes, targets and rates, live, until Ctrl-C.", "top"),
    "config": Subcommand("config", "Checks, shows and begins a configuration."),
    "doctor": Subcommand("doctor", "Examines the configuration, Redis and the data in it.", "doctor"),
    "health": Subcommand("health", "Asks the gateway and the dispatcher of this machine how they are.", "health"),
    "plugins": Subcommand("show", "Lists the plugins: where each is from, what it brings, what is wrong."),
    "demo": Subcommand("demo", "Shows it at work in a few seconds, in a temporary folder.", "demo"),
    "bench": Subcommand("bench.commands", "Measures this machine: figures, their spread, and ratios to a bare limit."),
    "version": Subcommand("show", "Prints the version.", "version"),
}


class Subcommands(TyperGroup):
    """Knows every subcommand's name and help, and loads the one that is run."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, each in SUBCOMMANDS.items():
            self.add_command(TyperCommand(name, help=each.help), name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in SUBCOMMANDS else command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix(_SAID_BEFORE)
            raise


def load(name: str) -> Any:
    """The whole subcommand of that name."""
    where = SUBCOMMANDS[name]
    found = getattr(importlib.import_module(f"gateway.cli.{where.module}"), where.name)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False)
        single.command(name)(found)
        found = single
    command: Any = typer.main.get_command(found)
    command.name = name
    _add_short_forms(getattr(command, "commands", {}))
    return command


def _add_short_forms(commands: dict[str, Any]) -> None:
    """`list` may be written `ls`, and the other way round."""
    for name, other in (("list", "ls"), ("ls", "list")):
        if name in commands and other not in commands:
            commands[other] = copy.copy(commands[name])
            commands[other].hidden = True
