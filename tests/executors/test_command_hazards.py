"""The `command` executor: what a program may take of the machine, whom it runs as, and what it says on the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from executors.command import CommandConfig, CommandExecutor
from executors.command.config import Rlimits
from gateway import Duration, Fatal, Result, Retry, Secret
from gateway.processes import Lines
from gateway.testing.executors import make_attempt
from tests.executors.values import shown
from tests.waiting import until

WAIT_S = 20.0
UID = 54321
LIMIT = 24
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as another user")

Run = Callable[..., Awaitable[Result]]


@pytest.fixture
async def run() -> AsyncIterator[Run]:
    """Runs a shell script, bounded in time."""
    executor = CommandExecutor({"PATH": os.environ["PATH"], "SECRET_OF_THE_DISPATCHER": "hunter2"})

    async def execute(script: str, payload: bytes = b"{}", *, report: Any = None, **config: Any) -> Result:
        settings = CommandConfig(argv=("sh", "-c", script), **config)
        attempt = make_attempt(settings, payload, **({"report": report} if report else {}))
        async with asyncio.timeout(WAIT_S):
            return shown(await executor.execute(attempt))

    yield execute
    await executor.aclose()


def processes_of(uid: int) -> list[int]:
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if proc.stat().st_uid == uid:
                found.append(int(proc.name))
    return found


def is_there(path: str) -> bool:
    return Path(path).exists()


@as_root
async def test_fork_bomb_is_bounded_and_leaves_nothing(run: Run) -> None:
    """Root is exempt from the limit, hence the user."""
    script = "exec bash -c 'bomb() { bomb | bomb & }; bomb; sleep 60' 2> /dev/null"
    bomb = asyncio.ensure_future(run(script, user=f"{UID}:{UID}", rlimits=Rlimits(processes=LIMIT)))
    seen = [0]
    async with asyncio.timeout(WAIT_S):
        while max(seen) < LIMIT or len(seen) < 10:
            seen.append(len(await asyncio.to_thread(processes_of, UID)))
    bomb.cancel()
    await asyncio.wait({bomb}, timeout=WAIT_S)
    assert max(seen) == LIMIT
    assert await asyncio.to_thread(processes_of, UID) == []


@as_root
async def test_command_of_another_user_has_its_rights_and_no_more(run: Run) -> None:
    result = await run(
        "id -u; id -g; id -G; grep CapEff /proc/self/status; test -w $TMPDIR && echo own", user=f"{UID}:{UID}"
    )
    assert result.value.split() == [str(UID), str(UID), str(UID), "CapEff:", "0" * 16, "own"]
    result = await run("cat /proc/$PPID/environ > /dev/null 2>&1 || echo denied", user=f"{UID}:{UID}")
    assert result.value == "denied\n"
    assert (await run("echo $USER $HOME", user="nobody")).value.split()[0] == "nobody"


async def test_user_without_the_right_to_it_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ValueError, match="user: to run commands as 'nobody', the dispatcher must run as root"):
        CommandExecutor({}).check(CommandConfig(argv=("true",), user="nobody"))


async def test_user_that_went_missing_is_fatal(run: Run) -> None:
    with pytest.raises(Fatal, match="there is no user 'nosuchuser'"):
        await run("true", user="nosuchuser")


async def test_limits_of_the_system_are_set(run: Run) -> None:
    limits = Rlimits(memory=2**30, cpu=9, open_files=33, file_size=2048)
    result = await run("ulimit -v; ulimit -t; ulimit -n; ulimit -f; ulimit -c", rlimits=limits)
    assert result.value.split() == [str(2**20), "9", "33", "4", "0"]


async def test_limit_that_is_passed_is_a_retry_that_says_so(run: Run) -> None:
    with pytest.raises(Retry, match="exited with code"):
        await run("head -c 100000 /dev/zero > $TMPDIR/big", rlimits=Rlimits(file_size=1000))
    with pytest.raises(Retry, match="was killed by SIG"):
        await run("while :; do :; done", rlimits=Rlimits(cpu=1))


@pytest.mark.parametrize(("umask", "mode"), [("077", 0o600), ("022", 0o644), ("0", 0o666)])
async def test_umask_is_private_unless_set(run: Run, tmp_path: Path, umask: str, mode: int) -> None:
    await run("echo 1 > made", cwd=str(tmp_path), **({} if umask == "077" else {"umask": umask}))
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == mode


async def test_own_folder_is_private_and_gone_afterwards_even_when_locked(run: Run) -> None:
    script = (
        "stat -c %a . && pwd && mkdir -p a/b && echo 1 > a/b/c && ln -s / a/root && chmod 000 a/b a && echo $TMPDIR"
    )
    mode, here, temp = (await run(script, cwd="$TMPDIR")).value.split()
    assert (mode, here) == ("700", temp)
    assert not is_there(temp)
    assert (await run("echo ${TMPDIR:-none}", temp=False)).value == "none\n"


async def test_own_folder_is_gone_when_the_command_was_cancelled(run: Run) -> None:
    said: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(
        run('echo "@gateway progress $TMPDIR"; sleep 60', report=said.set_result, grace=Duration(0.1))
    )
    folder = await asyncio.wait_for(said, WAIT_S)
    assert is_there(folder)
    task.cancel()
    await asyncio.wait({task}, timeout=WAIT_S)
    assert not is_there(folder)


async def test_no_secret_stays_behind_when_the_folder_cannot_be_filled(tmp_path: Path) -> None:
    async def is_empty() -> bool:
        return not await asyncio.to_thread(os.listdir, tmp_path)

    executor = CommandExecutor({"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)})
    files = {"KEY": Secret("hunter2"), "K" * 300: Secret("longer than a file's name may be")}
    try:
        async with asyncio.timeout(WAIT_S):
            with pytest.raises((Fatal, Retry)):
                await executor.execute(make_attempt(CommandConfig(argv=("true",), secret_files=files), b"{}"))
        await until(is_empty)
    finally:
        await executor.aclose()


async def test_secrets_come_inline_or_as_files_and_are_in_no_record(run: Run) -> None:
    secrets = {"TOKEN": Secret("hunter2-token")}
    files = {"KEY": Secret("line one\nline two")}
    result = await run(
        'stat -c %a "$KEY"; wc -l < "$KEY"; echo "$TOKEN"; cat "$KEY"', secrets=secrets, secret_files=files
    )
    assert result.value == "400\n1\n***\n***"
    with pytest.raises(Retry) as caught:
        await run('echo "out $TOKEN"; echo "err $TOKEN" >&2; exit 3', secrets=secrets)
    assert caught.value.message == "'sh' exited with code 3: err ***"
    assert caught.value.details == {"exit_code": 3, "stderr": "err ***\n", "stdout": "out ***\n"}
    assert "hunter2" not in repr(CommandConfig(argv=("a",), secrets=secrets, secret_files=files))


@as_root
async def test_secret_file_is_readable_to_the_commands_user_alone(run: Run) -> None:
    result = await run('stat -c "%u %a" "$KEY"; cat "$KEY"', secret_files={"KEY": Secret("s3")}, user=f"{UID}:{UID}")
    assert result.value == f"{UID} 400\ns3"


@pytest.mark.parametrize(
    ("code", "codes", "ending"),
    [
        (0, {}, None),
        (75, {}, Retry),
        (1, {"success_codes": (1,)}, None),
        (64, {"fatal_codes": (64,)}, Fatal),
        (1, {"retry_codes": (75,)}, Fatal),
        (75, {"retry_codes": (75,)}, Retry),
    ],
)
async def test_exit_codes_mean_what_the_target_says(
    run: Run, code: int, codes: dict[str, Any], ending: type[Exception] | None
) -> None:
    if ending is None:
        assert (await run(f"echo 5; exit {code}", **codes)).value == 5
        return
    with pytest.raises(ending):
        await run(f"exit {code}", **codes)


async def test_signal_is_a_retry_also_where_only_some_codes_are(run: Run) -> None:
    with pytest.raises(Retry, match="SIGKILL"):
        await run("kill -9 $$", retry_codes=(75,))


async def test_end_of_long_output_is_kept(run: Run) -> None:
    result = await run("seq 1 100000; echo the end", max_output=20)
    assert result.value == "\n99999\n100000\nthe end\n"[-20:]
    assert result.meta["truncated"] is True


async def test_progress_and_signs_of_life_are_heard_and_are_no_output(run: Run) -> None:
    reported: list[Any] = []
    first = """printf '@gateway progress {"done": 1}\\n{"a":'"""
    script = f"{first}; sleep 0.2; printf '1}}\\n@gateway heartbeat\\n@gateway progress half'"
    assert (await run(script, report=reported.append)).value == {"a": 1}
    assert reported == [{"done": 1}, "half"]


async def test_command_that_gives_no_sign_of_life_is_ended_and_retried(run: Run) -> None:
    with pytest.raises(Retry, match=r"no sign of life for 0\.3 s") as caught:
        await run("sleep 60", heartbeat=Duration(0.3), grace=Duration(0.1))
    assert caught.value.type == "heartbeat"
    lively = "for i in 1 2 3 4 5 6; do echo @gateway heartbeat; sleep 0.2; done; echo 7"
    assert (await run(lively, heartbeat=Duration(0.9))).value == 7


async def test_what_is_not_understood_is_logged_once(run: Run) -> None:
    with structlog.testing.capture_logs() as logged:
        assert (await run("echo @gateway hello; echo @gateway hello; echo 1")).value == 1
    assert [entry["detail"] for entry in logged if entry["event"] == "command.not_understood"] == [
        "a command says heartbeat or progress"
    ]


async def test_payload_of_every_kind_arrives_as_it_is(run: Run) -> None:
    for payload in (b'"\\u0000"', b'"--version"', b"-n", b"[" + b"1," * 100_000 + b"1]"):
        assert (await run("wc -c", payload=payload)).value == len(payload)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("output", "passed", "said"),
    [
        (b"a\n@gateway one\nb\n", b"a\nb\n", [b"one"]),
        (b"@gateway one\n@gateway two\n", b"", [b"one", b"two"]),
        (b"x @gateway no\n", b"x @gateway no\n", []),
        (b"@gatewa\n@gateway \nz", b"@gatewa\nz", [b""]),
        (b"a\n@gateway last", b"a\n", [b"last"]),
        (b"a\n@gate", b"a\n@gate", []),
        (b"\n\n@gateway q\n\n", b"\n\n\n", [b"q"]),
        (b"@gateway " + b"x" * 5000 + b"\n@gateway y\n", b"@gateway " + b"x" * 5000 + b"\n", [b"y"]),
        (b"", b"", []),
    ],
)
def test_marked_lines_are_taken_out_however_the_output_is_cut(
    size: int, output: bytes, passed: bytes, said: list[bytes]
) -> None:
    kept, heard = bytearray(), list[bytes]()
    lines = Lines(kept.extend, heard.append)
    for at in range(0, len(output), size):
        lines.feed(output[at : at + size])
    lines.end()
    assert (bytes(kept), heard) == (passed, said)
