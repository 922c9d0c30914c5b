"""Every place that says how a gateway or a dispatcher is started, read into one form."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.deploy import compose
from tests.deploy.dockerfile import Stage, read_stages
from tests.documents import ROOT

ROLE_OF = {"serve": "gateway", "dispatch": "dispatcher"}
INSTANCE = "8081"
"""What stands after the @ of a unit that is started."""


@dataclass(frozen=True, slots=True)
class Program:
    """One way to start a role. `health` is a command or empty, `stop_s` the time that it has to end, if said."""

    source: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    health: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    stop_signal: str = "SIGTERM"
    stop_s: float | None = None

    @property
    def role(self) -> str:
        """`gateway` or `dispatcher`, by its command."""
        return ROLE_OF[self.command[1]]

    def __str__(self) -> str:
        return f"{self.source}:{self.role}"


def image() -> Stage:
    """The last stage of the Dockerfile: what an image is."""
    return read_stages(ROOT / "Dockerfile")[-1]


def from_dockerfile() -> Iterator[Program]:
    """The image as it is started without a word, and with the other role's command."""
    stage = image()
    entry, usual = stage.only("ENTRYPOINT").words, stage.only("CMD").words
    health = re.sub(r"(--\S+\s+)*CMD\s+", "", stage.only("HEALTHCHECK").rest)
    for command in (usual, ["dispatch"]):
        yield Program(
            "Dockerfile",
            (*entry, *command),
            _ours(stage.environment),
            tuple(shlex.split(health.translate(str.maketrans("[],", "   ")))),
            tuple(int(word) for word in stage.only("EXPOSE").words),
            stage.only("STOPSIGNAL").rest,
        )


def from_compose(name: str, files: Sequence[Path]) -> Iterator[Program]:
    """The services that run our image; their environment over the image's."""
    stage = image()
    for service in compose.load(files)["services"].values():
        if "build" in service:
            yield Program(
                f"compose {name}",
                (*stage.only("ENTRYPOINT").words, *service["command"]),
                _ours(stage.environment) | service["environment"],
                tuple(service["healthcheck"]["test"][1:]),
                tuple(int(each.rpartition(":")[2]) for each in service.get("ports", [])),
                service["stop_signal"],
                seconds(service["stop_grace_period"]),
            )


def from_procfile() -> Iterator[Program]:
    for line in (ROOT / "Procfile").read_text().splitlines():
        yield Program("Procfile", tuple(shlex.split(line.partition(": ")[2])))


def unit_files() -> list[Path]:
    return sorted((ROOT / "deploy" / "systemd").glob("*.service"))


def read_unit(file: Path) -> dict[str, list[str]]:
    """`[Service]` of a unit; a key may be there more than once."""
    section = file.read_text().partition("[Service]\n")[2].partition("\n[")[0]
    found: dict[str, list[str]] = {}
    for line in section.splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def from_systemd() -> Iterator[Program]:
    for file in unit_files():
        unit = read_unit(file)
        binary, *arguments = shlex.split(unit["ExecStart"][0])
        assert Path(binary).name == "gateway"
        pairs = [
            word.partition("=") for line in unit["Environment"] for word in shlex.split(line.replace("%i", INSTANCE))
        ]
        yield Program(
            file.name,
            ("gateway", *arguments),
            _ours({name: value for name, _, value in pairs}),
            stop_signal=unit["KillSignal"][0],
            stop_s=float(unit["TimeoutStopSec"][0]),
        )


def programs() -> list[Program]:
    """All of them."""
    found = [*from_dockerfile(), *from_procfile(), *from_systemd()]
    for name, files in compose.OVERLAYS.items():
        found += from_compose(name, files)
    return found


def seconds(text: str) -> float:
    """Compose's durations, as far as we write them."""
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()  # type: ignore[union-attr]
    return float(number) * (60 if unit == "m" else 1)


def _ours(environment: dict[str, Any]) -> dict[str, str]:
    """Less what is the interpreter's and the shell's."""
    return {name: text for name, text in environment.items() if not name.startswith(("PYTHON", "PATH"))}
