"""The supervisor: children that die come back, children that must stop do, and none outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.supervisor import (
    SUPERVISOR_PID,
    Child,
    Patience,
    Supervisor,
    follow_supervisor,
    stop_signals,
)
from gateway.ties import kill_session

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")

CHILD = """
import os, signal, sys, time
from gateway.supervisor import follow_supervisor
name, diary, stubborn = sys.argv[1], sys.argv[2], int(sys.argv[3])
follow_supervisor(os.environ)
def note(what):
    with open(diary, "a") as out:
        out.write(f"{name} {what} {os.getpid()} {time.monotonic()}\\n")
terms = 0
def on_term(*_):
    global terms
    terms += 1
    note("TERM")
    if terms > stubborn:
        note("gone")
        os._exit(0)
signal.signal(signal.SIGTERM, on_term)
signal.signal(signal.SIGINT, lambda *_: note("INT"))
note("up")
while True:
    time.sleep(60)
"""
"""A child that keeps a diary and leaves at its TERM number `stubborn` + 1."""

SUPERVISE = """
import asyncio, json, sys
import uvloop
from gateway.supervisor import Child, Patience, Supervisor
plan = json.loads(sys.argv[1])
async def main():
    children = [Child(**child) for child in plan["children"]]
    return await Supervisor(children, patience=Patience(**plan["patience"])).run()
sys.exit(uvloop.run(main()) if plan["uvloop"] else asyncio.run(main()))
"""


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    what: str
    pid: int
    at_s: float


class Diary:
    """What the children wrote down."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self, what: str, name: str | None = None) -> list[Entry]:
        lines = [line.split() for line in self.path.read_text().splitlines()] if self.path.exists() else []
        found = [Entry(line[0], line[1], int(line[2]), float(line[3])) for line in lines if len(line) == 4]
        return [entry for entry in found if entry.what == what and name in (None, entry.name)]

    def await_count(self, count: int, what: str, name: str | None = None) -> list[Entry]:
        await_true(lambda: len(self.entries(what, name)) >= count)
        return self.entries(what, name)

    def child(self, name: str, *, stubborn: int = 0, stage: int = 0) -> dict[str, Any]:
        return {
            "name": name,
            "argv": [sys.executable, "-c", CHILD, name, str(self.path), str(stubborn)],
            "stage": stage,
        }


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "diary")


def await_true(condition: Callable[[], bool], timeout_s: float = 15.0) -> None:
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, "it did not come to that in time"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def supervising(
    *children: dict[str, Any], uvloop: bool = False, **patience: float
) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor in a process (and process group) of its own."""
    plan = json.dumps({"children": children, "patience": patience, "uvloop": uvloop})
    with subprocess.Popen([sys.executable, "-c", SUPERVISE, plan], process_group=0) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()


def program(source: str, *argv: str) -> list[str]:
    return [sys.executable, "-c", source, *argv]


def test_a_child_that_is_killed_comes_back(diary: Diary) -> None:
    with supervising(diary.child("serve"), base_s=0.01):
        first = diary.await_count(1, "up")[0]
        os.kill(first.pid, signal.SIGKILL)
        second = diary.await_count(2, "up")[1]
        assert second.pid != first.pid


def test_children_come_back_and_stop_under_uvloop_too(diary: Diary) -> None:
    with supervising(diary.child("serve"), uvloop=True, base_s=0.01) as supervisor:
        os.kill(diary.await_count(1, "up")[0].pid, signal.SIGKILL)
        diary.await_count(2, "up")
        os.killpg(supervisor.pid, signal.SIGINT)
        assert supervisor.wait(15) == 0
    assert len(diary.entries("TERM")) == len(diary.entries("gone")) == 1


def test_one_child_that_dies_does_not_disturb_another(diary: Diary) -> None:
    with supervising(diary.child("serve"), diary.child("dispatch"), base_s=0.01):
        diary.await_count(1, "up", "dispatch")
        os.kill(diary.await_count(1, "up", "serve")[0].pid, signal.SIGKILL)
        diary.await_count(2, "up", "serve")
        assert len(diary.entries("up", "dispatch")) == 1


async def crash_log(
    *,
    patience: Patience,
    crashes: int,
    clock: Callable[[], float] = time.monotonic,
    source: str = "raise SystemExit(3)",
) -> list[dict[str, Any]]:
    """The log of a supervisor whose only child crashes, up to that many crashes."""
    with capture_logs() as logs:
        supervisor = Supervisor([Child("crash", program(source))], patience=patience, clock=clock)
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(20):
            for _ in range(2000):
                crashed = [line for line in logs if line["event"].startswith("child ended")]
                if len(crashed) >= crashes:
                    break
                await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    return [dict(line) for line in crashed]


async def test_a_child_that_keeps_crashing_waits_twice_as_long_each_time_up_to_the_cap() -> None:
    logs = await crash_log(patience=Patience(base_s=0.01, cap_s=0.04), crashes=5)
    assert [line["delay_s"] for line in logs[:5]] == [0.01, 0.02, 0.04, 0.04, 0.04]
    assert {line["exit_code"] for line in logs} == {3}


async def test_the_wait_starts_anew_once_a_child_was_healthy_for_long_enough() -> None:
    readings = iter([0, 1, 2, 3, 4, 35, 36, 37, *range(100, 10_000)])
    logs = await crash_log(patience=Patience(base_s=0.01), crashes=4, clock=lambda: float(next(readings)))
    assert [line["delay_s"] for line in logs[:4]] == [0.01, 0.02, 0.01, 0.02]


async def test_the_log_names_the_signal_that_ended_a_child() -> None:
    suicide = "import os; os.kill(os.getpid(), 9)"
    logs = await crash_log(patience=Patience(base_s=0.01), crashes=1, source=suicide)
    assert logs[0]["signal"] == "SIGKILL"
    assert logs[0]["child"] == "crash"


def test_a_configuration_error_stops_everything_with_its_code(diary: Diary) -> None:
    wrong = {"name": "wrong", "argv": program("import sys; sys.exit(78)")}
    with supervising(diary.child("serve"), wrong) as supervisor:
        assert supervisor.wait(15) == os.EX_CONFIG
    assert [is_alive(entry.pid) for entry in diary.entries("up")] in ([], [False])


def test_a_program_that_is_not_there_is_a_configuration_error(tmp_path: Path) -> None:
    with supervising({"name": "absent", "argv": [str(tmp_path / "absent")]}) as supervisor:
        assert supervisor.wait(15) == os.EX_CONFIG


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_forwarded_as_term_and_the_exit_is_clean(diary: Diary, sig: signal.Signals) -> None:
    with supervising(diary.child("serve"), diary.child("dispatch")) as supervisor:
        diary.await_count(2, "up")
        supervisor.send_signal(sig)
        assert supervisor.wait(15) == 0
    assert len(diary.entries("TERM")) == len(diary.entries("gone")) == 2


def test_ctrl_c_in_a_terminal_reaches_children_once_and_as_term(diary: Diary) -> None:
    with supervising(diary.child("serve")) as supervisor:
        diary.await_count(1, "up")
        os.killpg(supervisor.pid, signal.SIGINT)
        assert supervisor.wait(15) == 0
    assert len(diary.entries("TERM")) == 1
    assert diary.entries("INT") == []


def test_a_later_stage_is_told_to_stop_only_when_the_earlier_one_is_gone(diary: Diary) -> None:
    children = diary.child("dispatch", stage=1), diary.child("serve", stage=0)
    with supervising(*children, stage_s=10.0) as supervisor:
        diary.await_count(2, "up")
        supervisor.terminate()
        assert supervisor.wait(15) == 0
    assert diary.entries("gone", "serve")[0].at_s < diary.entries("TERM", "dispatch")[0].at_s


def test_a_later_stage_does_not_wait_for_an_earlier_one_that_lingers(diary: Diary) -> None:
    children = diary.child("serve", stubborn=1, stage=0), diary.child("dispatch", stage=1)
    with supervising(*children, stage_s=0.05) as supervisor:
        diary.await_count(2, "up")
        supervisor.terminate()
        diary.await_count(1, "gone", "dispatch")
        assert diary.entries("gone", "serve") == []
        supervisor.terminate()
        assert supervisor.wait(15) == 0


def test_a_second_signal_tells_the_children_again(diary: Diary) -> None:
    with supervising(diary.child("serve", stubborn=1)) as supervisor:
        diary.await_count(1, "up")
        supervisor.terminate()
        diary.await_count(1, "TERM")
        supervisor.terminate()
        assert supervisor.wait(15) == 0
    assert len(diary.entries("TERM")) == 2


def test_a_child_that_ignores_the_second_signal_is_killed_soon(diary: Diary) -> None:
    with supervising(diary.child("serve", stubborn=99), hurry_s=0.1) as supervisor:
        pid = diary.await_count(1, "up")[0].pid
        supervisor.terminate()
        diary.await_count(1, "TERM")
        supervisor.terminate()
        assert supervisor.wait(15) == 1
    assert not is_alive(pid)


def test_a_third_signal_kills_at_once(diary: Diary) -> None:
    with supervising(diary.child("serve", stubborn=99), hurry_s=60.0) as supervisor:
        diary.await_count(1, "up")
        for count in (1, 2):
            supervisor.terminate()
            diary.await_count(count, "TERM")
        supervisor.terminate()
        assert supervisor.wait(15) == 1


def test_a_child_that_does_not_drain_in_time_is_killed(diary: Diary) -> None:
    with supervising(diary.child("serve", stubborn=99), stage_s=0.05, drain_s=0.1) as supervisor:
        pid = diary.await_count(1, "up")[0].pid
        supervisor.terminate()
        assert supervisor.wait(15) == 1
    assert not is_alive(pid)


@linux_only
def test_a_stop_ends_the_wait_before_a_restart(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    crash = {"name": "crash", "argv": program("import sys; open(sys.argv[1], 'w'); sys.exit(3)", str(ran))}
    with supervising(crash, base_s=600.0, cap_s=600.0) as supervisor:
        await_true(lambda: ran.exists() and not children_of(supervisor.pid))
        supervisor.terminate()
        assert supervisor.wait(15) == 0


@linux_only
def test_a_supervisor_killed_with_9_leaves_no_child(diary: Diary) -> None:
    with supervising(diary.child("serve"), diary.child("dispatch", stubborn=99)) as supervisor:
        pids = [entry.pid for entry in diary.await_count(2, "up")]
        supervisor.kill()
        supervisor.wait(5)
        try:
            await_true(lambda: not any(is_alive(pid) for pid in pids))
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


async def test_a_cancelled_run_leaves_no_child(diary: Diary) -> None:
    running = asyncio.create_task(Supervisor([Child(**diary.child("serve", stubborn=99))]).run())
    pid = (await asyncio.to_thread(diary.await_count, 1, "up"))[0].pid
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 10)
    assert not is_alive(pid)


@linux_only
def test_a_child_whose_parent_is_already_gone_ends_itself() -> None:
    source = "from gateway.ties import die_with_parent; die_with_parent(1 << 30); print('alive')"
    done = subprocess.run(program(source), capture_output=True, timeout=20)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b""


def test_the_supervisors_pid_is_not_handed_on_to_a_childs_own_children() -> None:
    source = (
        "import os; from gateway.supervisor import SUPERVISOR_PID, follow_supervisor;"
        "follow_supervisor(os.environ); print(SUPERVISOR_PID in os.environ)"
    )
    environ = {**os.environ, SUPERVISOR_PID: str(os.getpid())}
    done = subprocess.run(program(source), env=environ, capture_output=True, timeout=20, check=True)
    assert done.stdout.strip() == b"False"


def test_a_process_that_no_supervisor_started_is_left_as_it_is() -> None:
    assert not follow_supervisor({})


def test_children_get_their_environment_added_to_ours(tmp_path: Path) -> None:
    out = tmp_path / "out"
    source = "import os, sys; open(sys.argv[1], 'w').write(os.environ['SHARD'] + os.environ['PATH']); sys.exit(78)"
    with supervising({"name": "serve", "argv": program(source, str(out)), "env": {"SHARD": "7"}}) as supervisor:
        supervisor.wait(15)
    assert out.read_text() == "7" + os.environ["PATH"]


def test_names_that_repeat_are_refused() -> None:
    with pytest.raises(ValueError, match="each with a name of its own"):
        Supervisor([Child("serve", ["true"]), Child("serve", ["true"])])


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


LEAKS = """
import subprocess, sys
from gateway.ties import kill_children
left = subprocess.Popen(["sleep", "300"], stdout=subprocess.DEVNULL)
print(left.pid, flush=True)
if sys.argv[1] == "kill":
    kill_children()
"""


HELPED = """
import subprocess, sys
helper = "import sys, time; sys.stdin.read(); time.sleep(0.1)"
subprocess.Popen([sys.executable, "-c", helper], stdin=subprocess.PIPE)
raise SystemExit(78)
"""


@linux_only
async def test_what_ends_with_the_child_that_started_it_is_not_killed() -> None:
    with capture_logs() as logs:
        supervisor = Supervisor([Child("helped", program(HELPED))], patience=Patience(leave_s=20))
        async with asyncio.timeout(20):
            assert await supervisor.run() == 78
    assert [line["event"] for line in logs if "behind" in line["event"]] == []


@linux_only
@pytest.mark.parametrize("how", ["kill", "leave"])
def test_what_a_process_has_left_in_its_session_is_killed_by_it_or_after_it(how: str) -> None:
    command = [sys.executable, "-c", LEAKS, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        left = int(process.stdout.readline())
        process.wait(20)
    assert kill_session(process.pid) == ([left] if how == "leave" else [])
    until_s = time.monotonic() + 20
    while kill_session(process.pid):  # one that was killed is seen until it has ended
        assert time.monotonic() < until_s, "what was killed is there still"
        time.sleep(0.01)


def test_hup_asks_nothing_to_stop_where_nohup_has_it_ignored() -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert stop_signals() == [signal.SIGINT, signal.SIGTERM]
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert stop_signals() == [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    finally:
        signal.signal(signal.SIGHUP, before)
