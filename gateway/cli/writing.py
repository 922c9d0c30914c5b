"""Settings as text: what `gateway config show` prints, and the file that `gateway config init` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.durations import Duration
from gateway.secret import Secret
from gateway.settings import Settings
from gateway.settings.environment import SECTIONS

HIDDEN = "(a secret)"

_HEAD = """\
# gateway.toml: what this gateway runs, and how. Every key is described on the documentation's page Configuration;
# `gateway config check` says whether all is right, `gateway config show` what is in force.

# A target is a named thing to run. This one prints its payload back; try it:
#   gateway up
#   gateway jobs submit hello '{"name": "world"}' --wait 10s        (in another terminal)
[targets.hello]
executor = "command"
argv = ["cat"]

# [targets.resize]
# executor = "python"                  # the working directory is importable
# callable = "shop.images:resize"      # called as f(payload) or f(payload, context)
# timeout = "30s"
# retry = { policy = "exponential-jitter", max_attempts = 15, base = "5s", cap = "2h" }     # gives up after about 6.6h
# limit = { rate = "10/s", concurrency = 4 }

# [triggers.github]                    # takes deliveries at /hooks/github
# verifier = "github"
# secrets = [{ env = "GITHUB_SECRET" }]
# [[triggers.github.routes]]
# when = "headers.\\"x-github-event\\" == 'push'"
# target = "hello"

# [schedules.nightly]
# cron = "30 2 * * MON-FRI"
# timezone = "Europe/Berlin"
# target = "hello"

# From here on, every other key with its default.
"""


def sections(settings: Settings) -> Iterator[tuple[str, str, Any]]:
    """Section, key and value of every key that has a section; secrets are hidden."""
    for section, kind in SECTIONS.items():
        values = getattr(settings, section)
        for field in msgspec.structs.fields(kind):
            yield section, field.encode_name, shown(getattr(values, field.name))


def named(settings: Settings) -> dict[str, Any]:
    """Targets, triggers and schedules, without what their executors and verifiers read: secrets may be in it."""
    return {
        "targets": {name: shown(each, leave_out=("config",)) for name, each in settings.targets.items()},
        "triggers": {name: shown(each, leave_out=("config",)) for name, each in settings.triggers.items()},
        "schedules": {name: shown(each.body, leave_out=("payload",)) for name, each in settings.schedules.items()},
    }


def shown(value: Any, *, leave_out: tuple[str, ...] = ()) -> Any:
    """A setting as JSON has it."""
    if isinstance(value, Secret):
        return HIDDEN
    if isinstance(value, Duration):
        return _duration(value)
    if isinstance(value, msgspec.Struct):
        facts = {field.encode_name: getattr(value, field.name) for field in msgspec.structs.fields(type(value))}
        return {name: shown(each) for name, each in facts.items() if each is not None and name not in leave_out}
    if isinstance(value, dict):
        return {name: shown(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(each) for each in value]
    return str(value) if isinstance(value, str) else value


def beginning() -> str:
    """A `gateway.toml` that runs as it is, and names every key."""
    lines = [_HEAD]
    last = ""
    for section, key, value in sections(Settings()):
        if section != last:
            lines.append(f"\n[{section}]\n")
            last = section
        lines.append(f"# {key} = {toml(value)}\n" if value is not None else f"# {key} =\n")
    return "".join(lines)


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(each)}" for name, each in value.items()) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _duration(seconds: float) -> str:
    """`90` is `90s`, `3600` is `1h`: the largest unit that keeps it whole."""
    for unit, length_s in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds and seconds % length_s == 0:
            return f"{int(seconds // length_s)}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0s"
