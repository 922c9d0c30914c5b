"""A gateway and a dispatcher with something of everything, for requests that are made up from the description."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.installation import Installation, Process
from tests.servers import Server

KEY = "gwk_fuzz_0123456789abcdef0123456789abcdef"
CONFIG = """
[gateway]
dispatcher_port = 0

[egress]
allow = ["127.0.0.1/32"]

[targets.work]
executor = "python"
callable = "tasks:work"

[targets.echo]
executor = "command"
argv = ["cat"]

[targets.die]
executor = "command"
argv = ["false"]
retry = { max_attempts = 1 }

[triggers.github]
verifier = "github"
secrets = ["the-secret"]
[[triggers.github.routes]]
target = "work"

[triggers.open]
verifier = "none"
[[triggers.open.routes]]
target = "echo"

[schedules.daily]
cron = "@daily"
target = "work"
"""


@dataclass(frozen=True, slots=True)
class Described:
    """Where it is; `folder` holds the processes' logs."""

    url: str
    folder: Path
    processes: tuple[Process, ...]

    @property
    def whole(self) -> bool:
        """Whether the gateway and the dispatcher still run."""
        return not any(process.ended for process in self.processes)

    def log(self) -> str:
        return "".join(file.read_text() for file in sorted(self.folder.glob("log.*")))


@contextlib.contextmanager
def described(folder: Path) -> Iterator[Described]:
    """Runs until the block ends; there are dead jobs, so that there is something to send back."""
    with Server() as server:
        installation = Installation(folder, env={"GATEWAY_API_KEY": KEY})
        installation.client.headers["Authorization"] = f"Bearer {KEY}"
        (folder / "gateway.toml").write_text(CONFIG)
        try:
            processes = (installation.serve(server.url), installation.dispatch(server.url))
            processes[1].await_line("dispatcher started")
            for _ in range(3):
                installation.ended(installation.submit("die"))
            yield Described(str(installation.client.base_url).rstrip("/"), folder, processes)
        finally:
            installation.close()
