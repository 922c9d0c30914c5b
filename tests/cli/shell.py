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
DRIVER = Path(__file__).with_name("driver.py")


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


class Shell:
    """Runs commands in a folder, all in one process that lives until `close`."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.environ = environment(**environ)
        self._driver = subprocess.Popen(
            [sys.executable, str(DRIVER)],
            cwd=folder,
            env=self.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, input: str = "") -> Done:
        """The command, whatever it exits with."""
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        self._driver.stdin.write(json.dumps({"arguments": arguments, "input": input}) + "\n")
        self._driver.stdin.flush()
        found = json.loads(self._driver.stdout.readline())
        return Done(found["code"], found["stdout"], found["stderr"])

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

    def close(self) -> None:
        assert self._driver.stdin is not None
        self._driver.stdin.close()
        self._driver.wait(20)
        assert self._driver.stdout is not None
        self._driver.stdout.close()


def environment(**environ: str) -> dict[str, str]:
    """The environment of a user who has set nothing but this."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("GATEWAY_", "REDIS_URL", "PORT"))}
    return kept | {"COLUMNS": "80", "NO_COLOR": "1"} | environ
