"""Requests made up from `/openapi.json`, sent to a running gateway, and every answer held against it.

All of schemathesis's checks are on; `schemathesis.toml` argues the exceptions. Runs go on, each with another seed,
until there were enough requests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.openapi.installation import KEY, Described

HERE = Path(__file__).parent
RUN_TIMEOUT_S = 3600
PHASES = "examples,coverage,fuzzing,stateful"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of runs: requests sent, and the report of the first that found something."""

    requests: int
    report: str

    @property
    def clean(self) -> bool:
        return not self.report


def fuzz(
    gateway: Described, *, requests: int, examples: int, seed: int, workers: int = 1, phases: str = PHASES
) -> Outcome:
    """Sends at least so many requests, `examples` for each operation and phase at most in one run."""
    sent = 0
    while sent < requests:
        done = _run(gateway, examples=examples, seed=seed, workers=workers, phases=phases)
        found = re.search(r"(\d+) generated", done.stdout)
        if done.returncode != 0 or found is None:
            return Outcome(sent, done.stdout + done.stderr)
        sent += int(found[1])
        seed += 1
        print(json.dumps({"requests": sent, "seed": seed - 1}), flush=True)
    failed = [line for line in gateway.log().splitlines() if '"a request failed"' in line or "Traceback" in line]
    if not gateway.whole:
        failed.append("a process ended meanwhile")
    return Outcome(sent, "\n".join(failed))


def _run(
    gateway: Described, *, examples: int, seed: int, workers: int, phases: str
) -> subprocess.CompletedProcess[str]:
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        *("--config-file", str(HERE / "schemathesis.toml")),
        *("run", f"{gateway.url}/openapi.json"),
        *("--header", f"Authorization: Bearer {KEY}"),
        *("--checks", "all", "--continue-on-failure"),
        *("--exclude-checks", "use_after_free"),  # gone_after_delete of hooks.py is that one, but for what DELETE keeps
        *("--phases", phases),
        *("--max-examples", str(examples)),
        *("--seed", str(seed)),
        *("--workers", str(workers)),
        *("--request-timeout", "20"),
    ]
    env = os.environ | {"SCHEMATHESIS_HOOKS": "tests.openapi.hooks", "PYTHONPATH": str(HERE.parent.parent)}
    return subprocess.run(
        command, cwd=gateway.folder, env=env, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
