"""A folder with a configuration and a user's code in it, and the real `gateway` processes that run there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import orjson

from tests.servers import asked_to_end_with_us
from tests.waiting import until_sync

START_S = 60.0
TASKS = Path(__file__).with_name("tasks.py")

CONFIG = """
[targets.work]
executor = "python"
callable = "tasks:work"
retry = { policy = "fixed", base = "50ms", cap = "1s", max_attempts = 3 }

[targets.fail]
executor = "python"
callable = "tasks:fail"
retry = { policy = "fixed", base = "50ms", cap = "1s", max_attempts = 2 }

[targets.end_process]
executor = "python"
callable = "tasks:end_process"
"""


class Process:
    """A running `gateway` command whose output goes to a file of its own."""

    def __init__(self, command: Iterable[str], folder: Path, log: Path, env: dict[str, str]) -> None:
        self.log = log
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                asked_to_end_with_us(list(command)),
                cwd=folder,
                env=_environment() | env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def ended(self) -> bool:
        return self._popen.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        """kill -9."""
        self._popen.kill()
        self._popen.wait(10)

    def wait(self, timeout_s: float = START_S) -> int:
        """The exit code."""
        return self._popen.wait(timeout_s)

    def stop(self, timeout_s: float = START_S) -> int:
        """TERM, then the exit code."""
        self._popen.terminate()
        return self.wait(timeout_s)

    def lines(self, event: str) -> list[dict[str, Any]]:
        """What it and its children logged of an event."""
        found = []
        for line in self.log.read_bytes().splitlines():
            with contextlib.suppress(orjson.JSONDecodeError):
                entry = orjson.loads(line)
                if isinstance(entry, dict) and entry.get("event") == event:
                    found.append(entry)
        return found

    def await_line(self, event: str, *, count: int = 1) -> dict[str, Any]:
        """The last of `count` lines of an event, once they are there."""

        def there() -> bool:
            if self.ended:
                raise AssertionError(f"ended with {self._popen.returncode}:\n{self.log.read_text()[-3000:]}")
            return len(self.lines(event)) >= count

        until_sync(there, timeout_s=START_S)
        return self.lines(event)[-1]


class Installation:
    """Starts commands in its folder, speaks to the gateway there, and ends whatever is left at `close`."""

    def __init__(self, folder: Path, *, python: Path = Path(sys.executable), env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self._command = [str(python), "-P", "-m", "gateway"]
        self._env = env or {}
        self.effects = folder / "effects"
        self.client = httpx.Client(timeout=10)
        self._started: list[Process] = []
        (folder / "tasks.py").write_text(TASKS.read_text())
        self.effects.touch()

    def configure(self, *, more: str = "", **gateway: Any) -> None:
        """Writes `gateway.toml`: `gateway` over its section, `more` is TOML."""
        section = "\n".join(f"{key} = {orjson.dumps(value).decode()}" for key, value in gateway.items())
        (self.folder / "gateway.toml").write_text(f"[gateway]\ndispatcher_port = 0\n{section}\n{CONFIG}\n{more}")

    def add_module(self, name: str, text: str) -> None:
        """A module of the user's own."""
        (self.folder / f"{name}.py").write_text(text)

    def start(self, *arguments: str, env: dict[str, str] | None = None, log: Path | None = None) -> Process:
        own = self.folder / f"log.{len(self._started)}"
        process = Process([*self._command, *arguments], self.folder, log or own, self._env | (env or {}))
        self._started.append(process)
        return process

    def up(self, *arguments: str) -> Process:
        """`gateway up` on any free port, ready for work."""
        process = self.start("up", "--port", "0", *arguments)
        self.reach(process)
        process.await_line("dispatcher started")
        return process

    def serve(self, redis_url: str) -> Process:
        """`gateway serve` on any free port, ready for work."""
        process = self.start("serve", "--port", "0", env={"GATEWAY_REDIS_URL": redis_url})
        self.reach(process)
        return process

    def dispatch(self, redis_url: str) -> Process:
        """`gateway dispatch`, started but perhaps not ready yet."""
        return self.start("dispatch", env={"GATEWAY_REDIS_URL": redis_url})

    def reach(self, process: Process) -> None:
        """Points the client at a gateway that has just been started, once it is ready."""
        self.client.base_url = f"http://127.0.0.1:{process.await_line('gateway listens')['port']}"

        def ready() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return self.client.get("/readyz").status_code == 200
            return False

        until_sync(ready, timeout_s=START_S)

    def submit(self, target: str, payload: Any = None, **options: Any) -> str:
        answer = self.client.post("/jobs", json={"target": target, "payload": payload, **options})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job_id"])

    def submit_many(self, jobs: list[dict[str, Any]]) -> list[str]:
        answer = self.client.post("/jobs/batch", json=jobs)
        assert answer.status_code == 200, answer.text
        return [str(each["job_id"]) for each in answer.json()["results"]]

    def record(self, job_id: str) -> dict[str, Any]:
        answer = self.client.get(f"/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        record: dict[str, Any] = answer.json()
        return record

    def reached(self, job_id: str, *statuses: str, timeout_s: float = 15.0) -> dict[str, Any]:
        """The record, once its status is one of these."""
        until_sync(lambda: self.record(job_id)["status"] in statuses, timeout_s=timeout_s, every_s=0.05)
        return self.record(job_id)

    def ended(self, job_id: str, *, timeout_s: float = 15.0) -> dict[str, Any]:
        return self.reached(job_id, "succeeded", "dead", "cancelled", timeout_s=timeout_s)

    def lines(self) -> list[list[str]]:
        """What jobs logged, line by line, in words."""
        return [line.split() for line in self.effects.read_text().splitlines()]

    def processes(self) -> list[int]:
        """Every living process that works in this folder, found without the code under test."""
        found = []
        for proc in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                here = (proc / "cwd").readlink()
                if (here == self.folder or self.folder in here.parents) and "State:\tZ" not in (
                    proc / "status"
                ).read_text():
                    found.append(int(proc.name))
        return [pid for pid in found if pid != os.getpid()]

    def command_line(self, pid: int) -> bytes:
        """The arguments of a process, each ended by a NUL."""
        return (Path("/proc") / str(pid) / "cmdline").read_bytes()

    def close(self) -> None:
        """Kills every process that works in this folder, and waits until they are gone."""
        self.client.close()
        for process in self._started:
            process.kill()
        # a supervisor that is still there would start its children again
        for _ in range(50):
            if not (pids := self.processes()):
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                until_sync(lambda: not self.processes(), timeout_s=0.2)
        raise AssertionError(f"still running in {self.folder}: {self.processes()}")


def _environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith(("GATEWAY_", "REDIS_", "PORT"))}
