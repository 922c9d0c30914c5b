"""Commands as a user gives them, in a folder where a gateway runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Done:
    """What a command printed, and what it exited with."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """What it printed, which is one JSON value."""
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[Any]:
        """What it printed, which is a JSON value a line."""
        return [json.loads(line) for line in self.stdout.splitlines()]


class Driver:
    """The one process in which the commands of all shells run; started for the first, it lives until `close`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, **wanted: Any) -> Done:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("driver.py"))],
                env=environment() | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()
        found = json.loads(self._process.stdout.readline())
        return Done(found["code"], found["stdout"], found["stderr"])

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=20)
            self._process = None


DRIVER = Driver()


class Shell:
    """Runs commands in a folder, with an environment."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.environ = environment(**environ)

    def run(self, *arguments: str, input: str = "") -> Done:
        """The command, whatever it exits with."""
        environ = self.environ | {"PYTHONPATH": str(ROOT)}
        return DRIVER.run(arguments=arguments, input=input, folder=str(self.folder), environ=environ)

    def json(self, *arguments: str, code: int = 0, input: str = "") -> Any:
        """What it prints with `--json`, having exited with `code`."""
        done = self.run(*arguments, "--json", input=input)
        assert done.code == code, done
        return done.json

    def text(self, *arguments: str, code: int = 0, input: str = "") -> str:
        """What it prints for people, having exited with `code`."""
        done = self.run(*arguments, input=input)
        assert done.code == code, done
        return done.stdout

    def refused(self, *arguments: str, code: int) -> str:
        """What it says on standard error, having printed nothing else."""
        done = self.run(*arguments)
        assert (done.code, done.stdout) == (code, ""), done
        return done.stderr


def environment(**environ: str) -> dict[str, str]:
    """The environment of a user who has set nothing but this."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("GATEWAY_", "REDIS_URL", "PORT"))}
    return kept | {"COLUMNS": "80", "NO_COLOR": "1"} | environ
