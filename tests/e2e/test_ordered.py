"""Jobs of one key, in order, whatever fails and whoever is killed."""

from __future__ import annotations

import random
import time
from functools import partial
from typing import Any

from tests.e2e.installation import Installation
from tests.e2e.test_crash import statuses
from tests.servers import Server
from tests.waiting import until_sync

KEYS = 6
EACH = 20
KILLS = 3
TARGET = """
[targets.ledger]
executor = "python"
callable = "tasks:stumble"
ordered = true
retry = { policy = "fixed", base = "20ms", cap = "1s", max_attempts = 4 }
"""


def test_each_key_goes_strictly_in_order_when_jobs_fail_and_dispatchers_are_killed(
    installation: Installation, redis_server: Server
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    draw = random.Random(seed)
    installation.configure(lease="2s", slots=KEYS, max_stalls=50, more=TARGET)
    installation.serve(redis_server.url)
    installation.submit_many([_job(draw, key, number) for number in range(EACH) for key in range(KEYS)])
    dispatchers = [installation.dispatch(redis_server.url) for _ in range(2)]
    killed: set[int] = set()
    for kill in range(KILLS):
        seen = (kill + 1) * KEYS * EACH // (KILLS + 2)
        until_sync(partial(_have_ended, installation, seen), timeout_s=60)
        time.sleep(draw.uniform(0.0, 0.1))  # the random point itself
        busy = int(installation.lines()[-1][3])
        victim = next((at for at, each in enumerate(dispatchers) if each.pid == busy), kill % 2)
        dispatchers[victim].kill()
        killed.add(dispatchers[victim].pid)
        dispatchers[victim] = installation.dispatch(redis_server.url)
    until_sync(lambda: statuses(installation)["succeeded"] == KEYS * EACH, timeout_s=60, every_s=0.3)
    for key in range(KEYS):
        _check(key, [line for line in installation.lines() if line[1].startswith(f"{key}-")], killed)


def _have_ended(installation: Installation, jobs: int) -> bool:
    return sum(line[0] == "end" for line in installation.lines()) >= jobs


def _job(draw: random.Random, key: int, number: int) -> dict[str, Any]:
    payload = {"name": f"{key}-{number}", "s": draw.uniform(0.0, 0.08), "fails": draw.choice([0, 0, 0, 1, 2])}
    return {"target": "ledger", "key": f"k{key}", "payload": payload}


def _check(key: int, lines: list[list[str]], killed: set[int]) -> None:
    """Every start is of the first job that has not ended, while none of its key runs; only who was killed repeats."""
    done, running = 0, 0
    last_end = 0
    for kind, name, _, pid in lines:
        number = int(name.partition("-")[2])
        if kind == "start":
            assert not running or running in killed, f"{name} started while {running} ran another of key {key}"
            repeated = number == done - 1 and last_end in killed
            assert number == done or repeated, f"{name} started when {done} of key {key} had ended"
            running = int(pid)
            continue
        running = 0
        if kind == "end":
            done, last_end = number + 1, int(pid)
    assert done == EACH
