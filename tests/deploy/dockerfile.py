"""A Dockerfile, read: its stages and their instructions."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Instruction:
    """`RUN`, `COPY`, … and the rest of its line."""

    name: str
    rest: str

    @property
    def words(self) -> list[str]:
        """The rest as a list: JSON where it is written so, else as a shell would split it."""
        return [*json.loads(self.rest)] if self.rest.startswith("[") else shlex.split(self.rest)


@dataclass(frozen=True, slots=True)
class Stage:
    """What stands between one `FROM` and the next."""

    image: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, name: str) -> list[Instruction]:
        return [each for each in self.instructions if each.name == name]

    def only(self, name: str) -> Instruction:
        """The one instruction of the name."""
        (found,) = self.all(name)
        return found

    @property
    def environment(self) -> dict[str, str]:
        """What `ENV` sets."""
        pairs = [word.partition("=") for each in self.all("ENV") for word in each.words]
        return {name: value for name, _, value in pairs}


def read_stages(file: Path) -> list[Stage]:
    """The stages, in order."""
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    stages: list[Stage] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            image, _, alias = rest.partition(" AS ")
            stages.append(Stage(image, alias))
        elif stages:
            stages[-1].instructions.append(Instruction(name, rest.strip()))
    return stages
