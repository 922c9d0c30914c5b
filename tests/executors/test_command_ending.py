"""The `command` executor: nothing of a command outlives its attempt, however the attempt, or anyone, ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from executors.command import CommandConfig, CommandExecutor
from gateway import Duration, Result, Retry
from gateway.testing.executors import make_attempt
from tests.executors.runs import children, launchers, run_many, wait_for_death
from tests.executors.values import shown
from tests.waiting import until

WAIT_S = 20.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
async def executor() -> AsyncIterator[CommandExecutor]:
    executor = CommandExecutor()
    yield executor
    await executor.aclose()


class Line:
    """A FIFO that commands write lines to, so that a test can wait for what they say."""

    def __init__(self, path: Path) -> None:
        path.parent.chmod(0o711)
        os.mkfifo(path)
        self.path = str(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._text = b""

    async def read(self) -> str:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, ready.set)
        try:
            async with asyncio.timeout(WAIT_S):
                while b"\n" not in self._text:
                    await ready.wait()
                    ready.clear()
                    self._text += os.read(self._descriptor, 65536)
        finally:
            loop.remove_reader(self._descriptor)
        line, _, self._text = self._text.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    """Where other users can write to it too."""
    with tempfile.TemporaryDirectory(prefix="line-") as folder:
        line = Line(Path(folder) / "line")
        yield line
        line.close()


def begin(executor: CommandExecutor, line: Line, script: str, *, grace_s: float = 0.2) -> asyncio.Task[Result]:
    """Starts a shell script that says something on `$LINE`."""
    config = CommandConfig(argv=("sh", "-c", script), env={"LINE": line.path}, grace=Duration(grace_s))

    async def execute() -> Result:
        return shown(await executor.execute(make_attempt(config, timeout_s=60.0)))

    return asyncio.ensure_future(execute())


async def cancel(task: asyncio.Task[Result]) -> float:
    """Cancels, and gives the seconds until it had passed."""
    started = time.monotonic()
    task.cancel()
    await asyncio.wait({task}, timeout=WAIT_S)
    assert task.cancelled()
    return time.monotonic() - started


def is_alive(pid: int | str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True


async def test_timeout_lets_a_command_end_itself_within_the_grace(executor: CommandExecutor, line: Line) -> None:
    task = begin(
        executor, line, "trap 'echo bye > $LINE; exit 0' TERM; echo ready > $LINE; sleep 60 & wait", grace_s=60.0
    )
    assert await line.read() == "ready"
    assert await cancel(task) < 20.0
    assert await line.read() == "bye"


async def test_command_that_ignores_sigterm_is_killed_after_the_grace(executor: CommandExecutor, line: Line) -> None:
    task = begin(executor, line, "trap '' TERM; echo $$ > $LINE; while :; do sleep 60; done", grace_s=0.5)
    pid = await line.read()
    assert 0.5 <= await cancel(task) < 20.0
    assert not is_alive(pid)


async def test_stopped_command_is_killed(executor: CommandExecutor, line: Line) -> None:
    task = begin(executor, line, "echo $$ > $LINE; kill -STOP $$", grace_s=0.2)
    pid = await line.read()
    await cancel(task)
    assert not is_alive(pid)


async def test_deadline_kills_the_whole_group(executor: CommandExecutor, line: Line) -> None:
    script = "sh -c 'trap \"\" TERM; echo $$ > $LINE; sleep 60; sleep 60' & echo $$ > $LINE; wait"
    task = begin(executor, line, script)
    pids = [await line.read(), await line.read()]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await task
    assert [is_alive(pid) for pid in pids] == [False, False]


async def test_second_cancellation_kills_at_once(executor: CommandExecutor, line: Line) -> None:
    task = begin(
        executor, line, "trap 'echo asked > $LINE' TERM; echo $$ > $LINE; while :; do sleep 1; done", grace_s=60.0
    )
    pid = await line.read()
    task.cancel()
    assert await line.read() == "asked"
    assert await cancel(task) < 20.0
    await wait_for_death(pid)


async def test_grandchild_that_holds_the_pipes_is_killed_when_the_command_ends(
    executor: CommandExecutor, line: Line
) -> None:
    started = time.monotonic()
    result = await begin(executor, line, "sleep 60 & echo $!")
    assert time.monotonic() - started < 20.0
    assert isinstance(result.value, int)
    assert not is_alive(result.value)


async def test_output_of_a_grandchild_that_ends_soon_is_kept(executor: CommandExecutor, line: Line) -> None:
    result = await begin(executor, line, "(sleep 0.05; echo from the grandchild) & true")
    assert result.value == "from the grandchild\n"


@pytest.mark.parametrize("code", [0, 3])
async def test_daemon_in_its_own_session_is_killed_when_the_command_ends(
    executor: CommandExecutor, line: Line, code: int
) -> None:
    daemon = "setsid sh -c 'echo $$ > $LINE; exec sleep 60' < /dev/null > /dev/null 2>&1"
    task = begin(executor, line, f"({daemon} &); read answer < $LINE.go; exit {code}")
    os.mkfifo(f"{line.path}.go")
    pid = await line.read()
    assert os.getsid(int(pid)) == int(pid)
    await asyncio.to_thread(Path(f"{line.path}.go").write_text, "go\n")
    await asyncio.wait({task}, timeout=WAIT_S)
    assert (task.exception() is None) is (code == 0)
    assert not is_alive(pid)


async def test_daemons_of_a_cancelled_command_are_killed(executor: CommandExecutor, line: Line) -> None:
    daemon = "setsid sh -c 'trap \"\" TERM; echo $$ > $LINE; while :; do sleep 9; done'"
    spawn = f"for i in 1 2 3 4 5 6 7 8; do ({daemon} &); done"
    task = begin(executor, line, f"{spawn}; sleep 60")
    pids = [await line.read() for _ in range(8)]
    await cancel(task)
    assert not any(is_alive(pid) for pid in pids)


async def test_processes_that_keep_forking_are_all_killed(executor: CommandExecutor, line: Line) -> None:
    """Each link of the chain starts the next one, in a session of its own, and ends."""
    mark = f"{line.path}.chain"
    link = 'echo $$ > $LINE; setsid sh -c "$CHAIN" "$0" < /dev/null > /dev/null 2>&1 & sleep 0.02'
    task = begin(executor, line, f"export CHAIN='{link}'; sh -c \"$CHAIN\" {mark} & sleep 60")
    for _ in range(10):
        await line.read()
    # a link may begin and end while the processes are looked through, so that none is seen
    await until(lambda: lives(mark))
    await cancel(task)
    assert await asyncio.to_thread(processes_with, mark) == []


async def lives(argument: str) -> bool:
    return bool(await asyncio.to_thread(processes_with, argument))


def processes_with(argument: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argument.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


async def test_output_flood_is_cut_and_its_command_killed(executor: CommandExecutor, line: Line) -> None:
    task = begin(executor, line, "echo $$ > $LINE; exec yes")
    pid = await line.read()
    assert await cancel(task) < 5.0
    assert not is_alive(pid)


async def test_many_runs_leave_no_descriptor_and_no_process(executor: CommandExecutor) -> None:
    """`python -m tests.executors.runs` does it a thousand times and more."""
    await run_many(executor, 80)


async def test_aclose_ends_the_launcher_and_what_still_runs(line: Line) -> None:
    executor = CommandExecutor()
    task = begin(executor, line, "echo $$ > $LINE; sleep 60")
    pid = await line.read()
    assert len(launchers()) == 1
    await executor.aclose()
    assert launchers() == []
    await wait_for_death(pid)
    await asyncio.wait({task}, timeout=WAIT_S)
    assert isinstance(task.exception(), Retry)


async def test_launcher_that_was_killed_takes_its_commands_along_and_is_replaced(
    executor: CommandExecutor, line: Line
) -> None:
    task = begin(executor, line, "setsid sleep 61 & echo $$ $! > $LINE; sleep 60")
    pids = (await line.read()).split()
    os.kill(launchers()[0], signal.SIGKILL)
    for pid in pids:
        await wait_for_death(pid)
    with pytest.raises(Retry, match="'sh' was lost"):
        await asyncio.wait_for(task, WAIT_S)
    assert (await begin(executor, line, "echo 7")).value == 7
    assert len(launchers()) == 1


async def test_command_and_its_orphans_die_with_its_supervisor(executor: CommandExecutor, line: Line) -> None:
    bystander = begin(executor, line, "echo 1 > $LINE; sleep 0.5; echo 7")
    await line.read()
    script = "sleep 61 & a=$!; (setsid sleep 62 & echo $PPID $$ $a $! > $LINE); kill -9 $PPID; sleep 60"
    task = begin(executor, line, script)
    supervisor, *pids = (await line.read()).split()
    for pid in (supervisor, *pids):
        await wait_for_death(pid)
    with pytest.raises(Retry, match="'sh' was lost"):
        await asyncio.wait_for(task, WAIT_S)
    assert (await asyncio.wait_for(bystander, WAIT_S)).value == 7


async def test_signals_to_every_process_do_not_stop_a_command(executor: CommandExecutor, line: Line) -> None:
    """A terminal or service manager signals all of a dispatcher's processes; the drain is the dispatcher's to lead."""
    task = begin(executor, line, "echo $PPID > $LINE; read answer < $LINE.go; echo 7")
    os.mkfifo(f"{line.path}.go")
    supervisor = int(await line.read())
    launcher = launchers()[0]
    assert os.getsid(launcher) == launcher, "Ctrl-C reaches it"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(launcher, number)
        os.kill(supervisor, number)
    await asyncio.to_thread(Path(f"{line.path}.go").write_text, "go\n")
    assert (await asyncio.wait_for(task, WAIT_S)).value == 7


DISPATCHER = """
    import asyncio, os, sys, time
    from executors.command import CommandConfig, CommandExecutor
    from gateway.testing.executors import make_attempt

    async def main(script, line, bystander, user):
        config = CommandConfig(argv=("sh", "-c", script), env={"LINE": line}, user=user)
        executor = CommandExecutor()
        running = [asyncio.ensure_future(executor.execute(make_attempt(config))) for _ in range(3)]
        if bystander:
            await asyncio.wait(running, timeout=0.5)
            if os.fork() == 0:
                time.sleep(300)
            print("forked", flush=True)
        await asyncio.wait(running)

    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3] == "bystander", *sys.argv[4:] or [None]))
"""


@pytest.mark.parametrize("kind", ["alone", "bystander", "user"])
async def test_killed_dispatcher_leaves_no_command_behind(line: Line, kind: str) -> None:
    """Nor where a process that it forked lives on and holds every socket of its open, nor one of another user's."""
    if kind == "user" and os.geteuid() != 0:
        pytest.skip("only root can run commands as another user")
    script = "trap '' TERM; sleep 61 & a=$!; setsid sleep 62 & echo $$ $a $! > $LINE; sleep 60"
    command = [sys.executable, "-c", textwrap.dedent(DISPATCHER), script, line.path, kind]
    if kind == "user":
        os.chmod(line.path, 0o666)
        command.append("54322:54322")
    dispatcher = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    pids: list[int] = [int(pid) for _ in range(3) for pid in (await line.read()).split()]
    if kind == "bystander":
        assert dispatcher.stdout is not None
        await asyncio.wait_for(dispatcher.stdout.readline(), WAIT_S)
    launcher, *bystanders = sorted(children(dispatcher.pid))
    supervisors = children(launcher)
    assert len(supervisors) == 3
    assert all(is_alive(pid) for pid in pids)
    killed_s = time.monotonic()
    dispatcher.kill()
    try:
        for pid in (launcher, *supervisors, *pids):
            await wait_for_death(pid)
        assert time.monotonic() - killed_s < 10.0
        assert [is_alive(pid) for pid in bystanders] == [True] * (kind == "bystander")
    finally:
        for pid in bystanders:
            os.kill(pid, signal.SIGKILL)
        await asyncio.wait_for(dispatcher.communicate(), WAIT_S)
