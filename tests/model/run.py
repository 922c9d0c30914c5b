"""Runs lives of the engine against a server of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.clock import Change
from tests.model.driver import LISTENING, Tally
from tests.model.engine import Engine
from tests.model.machine import Life
from tests.servers import Server

NAMESPACE = "model"


@contextmanager
def client() -> Iterator[redis.Redis]:
    """A client of a server of its own."""
    with Server() as server, redis.Redis(unix_socket_path=str(server.socket), socket_timeout=30.0) as made:
        yield made


def run(
    made: redis.Redis,
    *,
    examples: int,
    steps: int,
    seed_from: int,
    change: Change = lambda source: source,
    shrink: bool = True,
    tally: Tally | None = None,
) -> Tally:
    """Draws `examples` lives of `steps` steps; raises what a broken one raised, with the shortest life that does."""
    counted = tally or Tally()

    class Seeded(Life):
        engine = Engine(made, NAMESPACE, change, listening=LISTENING)
        beside = Engine(made, f"{NAMESPACE}-beside", change, listening=LISTENING)
        tally = counted

    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    run_state_machine_as_test(
        seed(seed_from)(Seeded),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            print_blob=False,
            report_multiple_bugs=False,
            phases=phases,
            verbosity=Verbosity.normal,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return counted
