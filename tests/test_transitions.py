"""The log of transitions: every one at low rates, a bounded number of lines at high ones, and figures that add up."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from gateway import transitions as module
from gateway.transitions import LINES_A_S, Transitions
from tests.waiting import until


def facts(number: int) -> dict[str, Any]:
    return {"job_id": f"job-{number}"}


async def test_every_transition_has_a_line_when_there_are_few() -> None:
    now_s = 100.0
    it = Transitions(clock=lambda: now_s)
    with capture_logs() as lines:
        for second in range(5):
            now_s = 100.0 + second
            it.tell("job started", range(second, second + LINES_A_S), facts)
        it.flush()
    assert len(lines) == 5 * LINES_A_S
    assert lines[0] == {"event": "job started", "log_level": "info", "job_id": "job-0"}


async def test_lines_are_bounded_and_the_rest_is_counted_when_there_are_many() -> None:
    now_s = 100.0
    it = Transitions(clock=lambda: now_s)
    with capture_logs() as lines:
        for batch in range(100):
            now_s = 100.0 + batch / 50
            it.tell("job started", range(50), facts)
            it.one("job dead", warning=True, job_id="x")
        it.flush()
    shown = [line for line in lines if line["event"] == "job started"]
    counted = [line for line in lines if line["event"] == "transitions without a line"]
    assert len(shown) == 2 * LINES_A_S
    assert len(counted) == 1
    assert counted[0]["job_started"] == 5000 - len(shown)
    assert counted[0]["job_dead"] + sum(line["event"] == "job dead" for line in lines) == 100


async def test_what_was_counted_is_told_by_itself(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "WINDOW_S", 0.01)
    it = Transitions(clock=lambda: 1.0)
    with capture_logs() as lines:
        it.tell("job started", range(100), facts)

        async def told() -> bool:
            return any(line["event"] == "transitions without a line" for line in lines)

        await until(told)
    assert lines[-1]["job_started"] == 100 - LINES_A_S


def test_nothing_is_looked_at_when_no_line_is_wanted() -> None:
    it = Transitions(wanted=False)

    def never(number: int) -> dict[str, Any]:
        raise AssertionError

    with capture_logs() as lines:
        it.tell("job started", range(100), never)
        it.one("job dead", job_id="x")
    assert lines == []
