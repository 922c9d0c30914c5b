"""The `command` executor: what a program is given, and what becomes of what it says."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from executors.command import CommandConfig, CommandExecutor, register_executors
from gateway import Duration, Fatal, Result, Retry
from gateway.durations import parse_duration
from gateway.processes import Head, Tail
from gateway.testing.executors import make_attempt
from tests.executors.values import shown

WAIT_S = 20.0
PATH = os.environ["PATH"]
ENVIRON = {"PATH": PATH, "REDIS_PASSWORD": "hunter2", "LANG": "C.UTF-8", "HOME": "/home/nobody"}

Run = Callable[..., Awaitable[Result]]


@pytest.fixture
async def executor() -> AsyncIterator[CommandExecutor]:
    executor = CommandExecutor(ENVIRON)
    await executor.start()
    yield executor
    await executor.aclose()


@pytest.fixture
def run(executor: CommandExecutor) -> Run:
    """Runs a command, bounded in time."""

    async def execute(*argv: str, payload: bytes = b"{}", job: dict[str, Any] | None = None, **config: Any) -> Result:
        attempt = make_attempt(CommandConfig(argv=argv, **config), payload, **(job or {}))
        async with asyncio.timeout(WAIT_S):
            return shown(await executor.execute(attempt))

    return execute


async def test_payload_arrives_verbatim(run: Run, tmp_path: Path) -> None:
    payload = b'{"n": 18446744073709551617, "f": 1.0,  "l": [] }' + "ü".encode() + b"\n" * 3
    await run("sh", "-c", 'cat > "$OUT"', payload=payload, env={"OUT": str(tmp_path / "got")})
    assert (tmp_path / "got").read_bytes() == payload


async def test_payload_far_larger_than_a_pipe_goes_through_and_comes_back(run: Run) -> None:
    payload = b"[" + b"1," * 1_000_000 + b"1]"
    result = await run("cat", payload=payload, max_output=4_000_000)
    assert result.value == [1] * 1_000_001


async def test_command_that_does_not_read_its_input_succeeds(run: Run) -> None:
    assert (await run("true", payload=b"x" * 1_000_000)).value is None
    assert (await run("sh", "-c", "exec <&-; echo 5", payload=b"x" * 1_000_000)).value == 5


@pytest.mark.parametrize(
    ("output", "value"),
    [
        (r"{\"a\": [1, 2]}\n", {"a": [1, 2]}),
        (r"  42  \n", 42),
        (r"null", None),
        (r"hello\nworld\n", "hello\nworld\n"),
        (r"NaN", "NaN"),
        (r"\377ok", "\ufffdok"),
        (r" \n", None),
        (r"", None),
    ],
)
async def test_output_is_json_or_text_or_nothing(run: Run, output: str, value: Any) -> None:
    result = await run("printf", output.replace('\\"', '"'))
    assert result.value == value
    assert result.meta == {"exit_code": 0, "stderr": ""}


async def test_output_that_is_json_is_kept_byte_for_byte(executor: CommandExecutor) -> None:
    text = b'{"n": 123456789012345678901234567890,  "f": 1.0}'
    async with asyncio.timeout(WAIT_S):
        result = await executor.execute(make_attempt(CommandConfig(argv=("cat",)), text + b"\n"))
    assert orjson.dumps(result.value) == text


async def test_output_over_the_cap_is_dropped_and_said_so(run: Run) -> None:
    result = await run("sh", "-c", "head -c 30000000 /dev/zero | tr '\\0' 7; echo end >&2", max_output=10)
    assert result.value == "7" * 10, "cut digits are not a number"
    assert result.meta == {"exit_code": 0, "stderr": "end\n", "truncated": True}


async def test_output_of_just_the_cap_is_not_truncated(run: Run) -> None:
    result = await run("printf", "12345", max_output=5)
    assert result.value == 12345
    assert "truncated" not in result.meta


async def test_stderr_is_kept_to_its_last_kibibyte(run: Run) -> None:
    result = await run("sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x >&2; printf 'the \\377 end' >&2")
    assert result.meta["stderr"].endswith("xxx" + "the \ufffd end")
    assert len(result.meta["stderr"].encode()) == 1024


def test_kept_output_never_exceeds_its_limit() -> None:
    head, tail = Head(5), Tail(5)
    for chunk in (b"abc", b"", b"defgh", b"i"):
        head.feed(chunk)
        tail.feed(chunk)
    assert (bytes(head.kept), head.truncated) == (b"abcde", True)
    assert (tail.kept, tail.truncated) == (b"efghi", True)


async def test_both_streams_flooding_at_once_do_not_deadlock(run: Run) -> None:
    result = await run("sh", "-c", "(head -c 3000000 /dev/zero >&2) & head -c 3000000 /dev/zero; wait", max_output=10)
    assert result.meta["truncated"] is True


@pytest.mark.parametrize("code", [1, 2, 75, 126, 255])
async def test_exit_code_is_a_retry(run: Run, code: int) -> None:
    with pytest.raises(Retry, match=f"'sh' exited with code {code}: second") as caught:
        await run("sh", "-c", f"echo first >&2; echo second >&2; exit {code}", fatal_codes=(64, 65))
    assert caught.value.type == "exit_code"
    assert caught.value.details == {"exit_code": code, "stderr": "first\nsecond\n"}


async def test_exit_code_that_is_listed_is_fatal(run: Run) -> None:
    with pytest.raises(Fatal, match="'sh' exited with code 65") as caught:
        await run("sh", "-c", "exit 65", fatal_codes=(64, 65))
    assert caught.value.details == {"exit_code": 65, "stderr": ""}


@pytest.mark.parametrize(("number", "name"), [("KILL", "SIGKILL"), ("SEGV", "SIGSEGV"), ("40", "signal 40")])
async def test_death_by_signal_is_a_retry_that_names_it(run: Run, number: str, name: str) -> None:
    with pytest.raises(Retry, match=f"was killed by {name}") as caught:
        await run("sh", "-c", f"kill -{number} $$")
    assert caught.value.type == "signal"
    assert caught.value.details["signal"] == name
    assert caught.value.details["exit_code"] > 128


async def test_arguments_meet_no_shell(run: Run) -> None:
    assert (await run("printf", "%s|", "$HOME", "*", "; id", "`id`", "")).value == "$HOME|*|; id|`id`||"


async def test_environment_holds_what_is_listed_and_the_jobs_facts(run: Run) -> None:
    result = await run(
        "/usr/bin/env",
        "-0",
        env={"MODE": "fast", "GATEWAY_JOB_ID": "forged"},
        pass_env=("LANG", "NOT_SET_ANYWHERE"),
        job={"number": 2, "max_attempts": 7, "target": "thumb", "key": "cust ü=1", "traceparent": "00-ab-cd-01"},
    )
    found = dict(entry.split("=", 1) for entry in result.value.rstrip("\0").split("\0"))
    assert len(found.pop("GATEWAY_JOB_ID")) == 36
    assert found.pop("TMPDIR").startswith("/")
    assert found == {
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "MODE": "fast",
        "GATEWAY_JOB_TARGET": "thumb",
        "GATEWAY_JOB_ATTEMPT": "2",
        "GATEWAY_JOB_MAX_ATTEMPTS": "7",
        "GATEWAY_JOB_KEY": "cust ü=1",
        "TRACEPARENT": "00-ab-cd-01",
    }


async def test_parent_process_has_no_environment_to_read(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", "hunter2")
    assert (
        await run("sh", "-c", "tr '\\0' '\\n' < /proc/$PPID/environ | grep -vE 'LD_LIBRARY_PATH|TMPDIR' || true")
    ).value is None


async def test_own_path_decides_which_program_runs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "greet").write_text("#!/bin/sh\necho '\"from the path\"'\n")
    (tmp_path / "greet").chmod(0o755)
    assert (await run("greet", env={"PATH": str(tmp_path)})).value == "from the path"


async def test_cwd_is_the_dispatchers_unless_given(run: Run, tmp_path: Path) -> None:
    assert (await run("pwd")).value == f"{os.getcwd()}\n"
    assert (await run("pwd", cwd=str(tmp_path))).value == f"{tmp_path}\n"


async def test_command_starts_clean(run: Run) -> None:
    """A session of its own, no descriptor but the standard ones, no signal ignored or blocked."""
    pid, group, session = (await run("cut", "-d", " ", "-f", "1,5,6", "/proc/self/stat")).value.split()
    assert pid == group == session
    probe = "n=0; while [ $n -lt 256 ]; do [ -e /proc/$$/fd/$n ] && echo $n; n=$((n+1)); done; true"
    assert (await run("sh", "-c", probe)).value.split() == ["0", "1", "2"]
    masks = (await run("grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status")).value.split()
    assert masks[1::2] == ["0" * 16] * 2


async def test_command_dumps_no_core_even_where_the_dispatcher_may(run: Run) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        assert (await run("sh", "-c", "ulimit -c")).value == 0
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@pytest.mark.parametrize("closing", ["exec >&- 2>&-", "exec >&-", "exec 0<&- >&- 2>&-"])
async def test_command_that_closes_its_streams_runs_on(run: Run, tmp_path: Path, closing: str) -> None:
    with pytest.raises(Retry) as caught:
        await run("sh", "-c", f"{closing}; sleep 0.3; touch done; exit 9", cwd=str(tmp_path))
    assert caught.value.details["exit_code"] == 9
    assert (tmp_path / "done").exists()


async def test_program_that_cannot_start_is_fatal(run: Run, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("echo hi\n")
    (tmp_path / "binary").write_bytes(b"\x00\x01garbage")
    (tmp_path / "binary").chmod(0o755)
    for argv, message in (
        (("no-such-program",), "cannot start 'no-such-program': No such file or directory"),
        ((str(tmp_path / "plain"),), "plain': Permission denied"),
        ((str(tmp_path / "binary"),), "binary': Exec format error"),
        ((str(tmp_path),), "Permission denied"),
        (("echo", "x" * 200_000), "cannot start 'echo': Argument list too long"),
    ):
        with pytest.raises(Fatal, match=message) as caught:
            await run(*argv)
        assert caught.value.type == "launch"


async def test_cwd_that_is_missing_is_fatal(run: Run, tmp_path: Path) -> None:
    with pytest.raises(Fatal, match=r"cannot start 'pwd' in cwd '.*absent': No such file") as caught:
        await run("pwd", cwd=str(tmp_path / "absent"))
    assert caught.value.details == {"errno": "ENOENT"}


async def test_request_larger_than_a_socket_buffer_goes_through(run: Run) -> None:
    arguments = ["y" * 100_000] * 12
    assert (await run("sh", "-c", "echo $#", "sh", *arguments)).value == 12


async def test_job_key_with_a_nul_is_fatal(run: Run) -> None:
    with pytest.raises(Fatal, match="GATEWAY_JOB_KEY holds a NUL"):
        await run("true", job={"key": "a\0b"})


async def test_text_that_is_no_environment_of_a_c_locale_still_passes(run: Run) -> None:
    assert (await run("printf", "%s", "日本語")).value == "日本語"


async def test_temporary_shortage_is_a_retry(run: Run, tmp_path: Path) -> None:
    """A program that is open for writing (ETXTBSY) may be there in a moment."""
    program = tmp_path / "busy"
    shutil.copy("/bin/true", program)
    with program.open("ab"), pytest.raises(Retry, match="Text file busy") as caught:
        await run(str(program))
    assert caught.value.type == "launch"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"argv": []}, "argv is empty"),
        ({"argv": [""]}, "argv is empty"),
        ({"argv": ["a\0b"]}, "NUL"),
        ({"argv": ["a"], "env": {"A": "\0"}}, "NUL"),
        ({"argv": ["a"], "env": {"A=B": "c"}}, "'A=B' cannot name an environment variable"),
        ({"argv": ["a"], "pass_env": [""]}, "'' cannot name an environment variable"),
        ({"argv": ["a"], "cwd": "/\0"}, "NUL"),
        ({"argv": ["a"], "max_output": 0}, r">= 1 - at `\$.max_output`"),
        ({"argv": ["a"], "max_output": 10**9}, r"<= 16777216 - at `\$.max_output`"),
        ({"argv": ["a"], "fatal_codes": [0]}, r">= 1 - at `\$.fatal_codes\[0\]`"),
        ({"argv": ["a"], "retry_codes": [256]}, r"<= 255 - at `\$.retry_codes\[0\]`"),
        (
            {"argv": ["a"], "fatal_codes": [3], "success_codes": [3]},
            "exit code 3 is in success_codes and in fatal_codes",
        ),
        ({"argv": ["a"], "umask": "9"}, "umask is '9'; write octal digits, umask = \"077\""),
        ({"argv": ["a"], "rlimits": {"processes": 0}}, r">= 1 - at `\$.rlimits.processes`"),
        ({"argv": ["a"], "rlimits": {"cores": 1}}, "unknown field `cores`"),
        ({"argv": ["a"], "temp": False, "cwd": "$TMPDIR"}, "need the folder that temp = false leaves out"),
        ({"argv": ["a"], "heartbeat": "1ms"}, "heartbeat lies between 10ms and 1d"),
        ({"argv": ["a"], "grace": "2m"}, "grace is at most 60 seconds"),
        ({"argv": ["a"], "shell": True}, "unknown field `shell`"),
        ({"argv": "rm -rf x"}, "Expected `array`"),
    ],
)
def test_config_refuses_what_cannot_run(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(fields, CommandConfig, dec_hook=lambda kind, value: parse_duration(value))


def test_config_reads_durations() -> None:
    fields = {"argv": ["a"], "grace": "1.5s"}
    config = msgspec.convert(fields, CommandConfig, dec_hook=lambda kind, value: parse_duration(value))
    assert config.grace == Duration(1.5)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (CommandConfig(argv=("no-such-program",)), "no program 'no-such-program' that may be run, PATH is /"),
        (
            CommandConfig(argv=("true",), env={"PATH": "/nowhere"}),
            "no program 'true' that may be run, PATH is /nowhere",
        ),
        (CommandConfig(argv=("./true",), cwd="/"), r"no program './true'"),
        (CommandConfig(argv=("true",), cwd="/no/such/place"), "no directory '/no/such/place'"),
        (CommandConfig(argv=("true",), user="\0"), r"user: there is no user '\\x00' on this machine"),
        (CommandConfig(argv=("true",), user="0:\0"), r"user: there is no group '\\x00' on this machine"),
        (CommandConfig(argv=("true",), user="nosuchuser"), "user: there is no user 'nosuchuser' on this machine"),
        (CommandConfig(argv=("true",), user="root:nosuchgroup"), "user: there is no group 'nosuchgroup'"),
        (CommandConfig(argv=("true",), user="54321:4294967296"), "user: there is no group '4294967296'"),
        (CommandConfig(argv=("true",), user="54321"), "user: there is no user '54321' on this machine"),
    ],
)
def test_check_says_what_is_missing(config: CommandConfig, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CommandExecutor(ENVIRON).check(config)


def test_check_finds_programs_by_path_and_by_place(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    executor = CommandExecutor(ENVIRON)
    for config in (
        CommandConfig(argv=("true",)),
        CommandConfig(argv=("./tool",), cwd=str(tmp_path)),
        CommandConfig(argv=("tool",), env={"PATH": str(tmp_path)}),
    ):
        executor.check(config)


def test_module_registers_its_executor() -> None:
    assert [executor.name for executor in register_executors(settings=None)] == ["command"]
    assert hasattr(register_executors, "gateway_impl"), "pluggy does not see it"
