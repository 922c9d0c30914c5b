"""The short form of the suite: the faults that touch most of the program. `python -m tests.faults` runs every row."""

from __future__ import annotations

import random

import pytest

from tests.faults.history import STOOD_STILL, Event, History
from tests.faults.mutations import MUTATIONS, ROOT, Mutation
from tests.faults.rows import ROWS
from tests.faults.suite import run_row


@pytest.mark.parametrize("number", ["4", "12", "15"])
def test_no_job_is_lost_and_none_runs_twice_without_reason(number: str) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    result = run_row(ROWS[number], "standalone", seed=seed)
    assert result.breaches == ()
    assert result.acknowledged > 100
    assert result.times > 1


def test_recovery_is_when_jobs_are_taken_in_and_finished_again() -> None:
    second = 1_000_000_000
    events = [(1, "ack"), (2, "end"), (3, "fault"), (4, "healed"), (5, "ack"), (7, "end"), (9, "ack")]
    history = History(Event(at * second, kind, "j") for at, kind in events)  # type: ignore[arg-type]
    assert history.recoveries_s() == [3.0]


def test_runs_begin_late_only_where_their_process_stood_still() -> None:
    ms = 1_000_000
    events = [(0, "start", "1.1"), (1, "fault", STOOD_STILL), (1000, "start", "2.1"), (2000, "end", "2.1")]
    events += [(2500, "healed", STOOD_STILL), (2501, "start", "1.2"), (2502, "start", "2.2"), (9000, "start", "1.3")]
    history = History(Event(at * ms, kind, "j", run=run) for at, kind, run in events)  # type: ignore[arg-type]
    assert history.begun_late() == {"1.2"}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: str(mutation.name))
def test_mutation_still_breaks_one_place(mutation: Mutation) -> None:
    assert (ROOT / mutation.file).read_text().count(mutation.old) == 1
    assert mutation.row in ROWS
