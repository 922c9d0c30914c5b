"""The embedded Valkey: one server per folder, data that survive every kill, and errors that say the mend."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from gateway.errors import ConfigError, StoreUnavailable
from gateway.store.embedded import EmbeddedValkey, find
from gateway.store.folder import MAX_SOCKET_BYTES
from gateway.store.orphan import Orphan

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="identifies a process by /proc")

OWNER = """
import json, sys
from pathlib import Path
from gateway.store.embedded import EmbeddedValkey
server = EmbeddedValkey(Path(sys.argv[1]), temporary=sys.argv[2:] == ["temporary"])
print(json.dumps({"url": server.start(), "pid": server.pid}), flush=True)
sys.stdin.read()
"""
"""Another process that owns the server until its input ends, or it is killed."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A data folder; whatever server is left in it at the end is ended."""
    path = tmp_path / ".gateway"
    yield path
    for pid in servers_in(path):
        os.kill(pid, signal.SIGKILL)


def servers_in(folder: Path) -> list[int]:
    """The pids of every valkey-server that works in the folder, found without the code under test."""
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (proc / "exe").readlink().name == "valkey-server" and (proc / "cwd").readlink() == folder:
                found.append(int(proc.name))
    return found


@contextlib.contextmanager
def started(folder: Path) -> Iterator[tuple[EmbeddedValkey, str]]:
    server = EmbeddedValkey(folder)
    url = server.start()
    try:
        yield server, url
    finally:
        server.stop()


def put(url: str, key: str, value: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.set(key, value)


def get(url: str, key: str) -> str:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return str(client.get(key))


@contextlib.contextmanager
def other_owner(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        try:
            facts = json.loads(process.stdout.readline())
            yield process, facts["url"], facts["pid"]
        finally:
            process.kill()


def left_behind(folder: Path) -> tuple[str, int]:
    """A server whose owner was killed with -9 after a write; its URL and pid."""
    with other_owner(folder) as (owner, url, pid):
        put(url, "job", "kept")
        owner.kill()
        owner.wait(10)
    return url, pid


async def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    for _ in range(int(timeout_s / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


def test_data_stay_when_the_server_is_stopped_and_started(folder: Path) -> None:
    with started(folder) as (server, url):
        put(url, "job", "kept")
        pid = server.pid
    assert servers_in(folder) == []
    with started(folder) as (server, url):
        assert server.pid != pid
        assert get(url, "job") == "kept"


def test_the_server_is_private_durable_and_never_evicts(folder: Path) -> None:
    with started(folder) as (_, url), redis.Redis.from_url(url, decode_responses=True) as client:
        wanted = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "port": "0"}
        assert client.config_get(*wanted) == wanted
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "valkey.sock").stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "appendonlydir" / "appendonly.aof.manifest").stat().st_mode) == 0o600


def test_the_server_has_a_session_of_its_own_so_ctrl_c_misses_it(folder: Path) -> None:
    with started(folder) as (server, _):
        assert server.pid is not None
        assert os.getsid(server.pid) == server.pid != os.getsid(0)


def test_a_second_start_is_refused_and_names_the_holder_and_since_when(folder: Path) -> None:
    with other_owner(folder) as (owner, url, pid):
        with pytest.raises(ConfigError, match=rf"process {owner.pid} since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ; stop it"):
            EmbeddedValkey(folder).start()
        put(url, "job", "untouched")
        assert servers_in(folder) == [pid]


def test_the_folder_is_free_again_after_a_start_that_failed(folder: Path) -> None:
    folder.mkdir()
    (folder / "appendonlydir").write_text("in the way")
    with pytest.raises(StoreUnavailable):
        EmbeddedValkey(folder).start()
    (folder / "appendonlydir").unlink()
    with started(folder) as (_, url):
        put(url, "job", "kept")


def test_find_gives_the_url_while_the_server_runs_and_nothing_after(folder: Path) -> None:
    assert find(folder) is None
    with started(folder) as (_, url):
        assert find(folder) == url
    assert find(folder) is None


def test_find_is_not_fooled_by_a_server_on_other_data(folder: Path, tmp_path: Path) -> None:
    with started(folder):
        other = tmp_path / "other"
        other.mkdir()
        (other / "socket").write_text(str(folder / "valkey.sock"))
        assert find(other) is None


@linux_only
async def test_a_temporary_server_ends_with_its_killed_owner(folder: Path) -> None:
    with other_owner(folder, "temporary") as (owner, url, pid):
        put(url, "job", "kept")
        assert servers_in(folder) == [pid]
        assert os.getsid(pid) == pid
        owner.kill()
        owner.wait(10)
        await until(lambda: servers_in(folder) == [])


@linux_only
def test_a_server_whose_owner_was_killed_is_taken_over(folder: Path) -> None:
    url, pid = left_behind(folder)
    assert servers_in(folder) == [pid]
    with started(folder) as (server, url_now):
        assert (server.pid, url_now) == (pid, url)
        assert servers_in(folder) == [pid]
        assert get(url, "job") == "kept"
    assert servers_in(folder) == []


@linux_only
def test_a_silent_server_left_behind_is_ended_and_another_started(folder: Path) -> None:
    _, pid = left_behind(folder)
    os.kill(pid, signal.SIGSTOP)
    with started(folder) as (server, url):
        assert server.pid != pid
        assert servers_in(folder) == [server.pid]
        assert get(url, "job") == "kept"


@linux_only
def test_a_server_left_behind_without_a_socket_is_ended_and_another_started(folder: Path) -> None:
    _, pid = left_behind(folder)
    (folder / "valkey.sock").unlink()
    with started(folder) as (server, url):
        assert server.pid != pid
        assert servers_in(folder) == [server.pid]
        assert get(url, "job") == "kept"


@linux_only
def test_a_server_that_no_record_names_is_never_joined_by_a_second(folder: Path) -> None:
    _, pid = left_behind(folder)
    (folder / "valkey.sock").unlink()
    (folder / "valkey.pid").unlink()
    with pytest.raises(StoreUnavailable, match="does not answer; look into"):
        EmbeddedValkey(folder).start(timeout_s=0.3)
    assert servers_in(folder) == [pid]


@linux_only
def test_a_recorded_pid_that_is_now_someone_elses_is_left_alone(folder: Path) -> None:
    with started(folder) as (_, url):
        put(url, "job", "kept")
    with subprocess.Popen(["sleep", "60"], cwd=folder) as bystander:
        try:
            (folder / "valkey.pid").write_text(f"{bystander.pid}\n")
            with started(folder) as (server, url):
                assert server.pid != bystander.pid
                assert get(url, "job") == "kept"
            assert bystander.poll() is None
        finally:
            bystander.kill()


@linux_only
def test_a_recorded_pid_that_serves_another_folder_is_left_alone(folder: Path, tmp_path: Path) -> None:
    other_folder = tmp_path / "other"
    with started(other_folder) as (other, _):
        folder.mkdir()
        (folder / "valkey.pid").write_text(f"{other.pid}\n")
        with started(folder) as (server, _):
            assert server.pid != other.pid
        assert servers_in(other_folder) == [other.pid]


def test_data_stay_when_the_server_is_killed(folder: Path) -> None:
    with other_owner(folder) as (_, url, pid):
        put(url, "job", "kept")
        os.kill(pid, signal.SIGKILL)
    with started(folder) as (_, url):
        assert get(url, "job") == "kept"


def test_a_torn_last_write_is_dropped_and_the_rest_is_kept(folder: Path) -> None:
    with started(folder) as (_, url):
        put(url, "job", "kept")
    with (folder / "appendonlydir" / "appendonly.aof.1.incr.aof").open("ab") as log:
        log.write(b"*3\r\n$3\r\nSET\r\n$3\r\nto")
    with started(folder) as (_, url):
        assert get(url, "job") == "kept"


def test_a_broken_append_only_file_is_reported_with_the_log_and_a_mend_that_works(folder: Path) -> None:
    with started(folder) as (_, url):
        put(url, "job", "kept")
    with (folder / "appendonlydir" / "appendonly.aof.1.incr.aof").open("ab") as log:
        log.write(b"no such format\r\n")
    with pytest.raises(StoreUnavailable, match="Bad file format reading the append only file") as caught:
        EmbeddedValkey(folder).start()
    mend = str(caught.value).partition("with bash: ")[2].splitlines()[0]
    subprocess.run(["bash", "-c", mend], input=b"y\n", check=True, capture_output=True, timeout=20)
    with started(folder) as (_, url):
        assert get(url, "job") == "kept"


def test_a_server_that_ends_at_once_is_noticed_long_before_the_timeout(folder: Path) -> None:
    folder.mkdir()
    (folder / "appendonlydir").write_text("in the way")
    with pytest.raises(StoreUnavailable, match=r"exit code 1 while starting(?s:.*)Not a directory"):
        EmbeddedValkey(folder).start(timeout_s=10.0)


def test_a_folder_that_cannot_be_made_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used as the data folder: Not a directory"):
        EmbeddedValkey(tmp_path / "file" / "data").start()
    with pytest.raises(ConfigError, match=r"File exists .*; move away what is there, or name another one"):
        EmbeddedValkey(tmp_path / "file").start()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_writable_is_a_configuration_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot be used as the data folder: Permission denied"):
        EmbeddedValkey(tmp_path / "data").start()


def test_a_path_too_long_for_a_socket_gets_a_short_private_one_that_others_find(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30) / "data ünd #1"
    with started(folder) as (_, url):
        socket = redis.connection.parse_url(url)["path"]
        assert len(os.fsencode(socket)) <= MAX_SOCKET_BYTES
        assert stat.S_IMODE(Path(socket).parent.stat().st_mode) == 0o700
        assert find(folder) == url
        put(url, "job", "kept")
    assert not Path(socket).parent.exists()
    with started(folder) as (_, url):
        assert get(url, "job") == "kept"


@linux_only
def test_a_server_at_a_short_socket_is_taken_over_too(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    url, pid = left_behind(folder)
    with started(folder) as (server, url_now):
        assert (server.pid, url_now) == (pid, url)


def test_a_short_socket_folder_that_others_may_enter_is_not_used_again(tmp_path: Path) -> None:
    folder, trap = tmp_path / ("long" * 30), tmp_path / "trap"
    folder.mkdir()
    trap.mkdir()
    trap.chmod(0o777)
    (folder / "socket").write_text(f"{trap}/valkey.sock\n")
    with started(folder) as (_, url):
        assert str(trap) not in url


def test_special_characters_in_the_path_survive_the_url(tmp_path: Path) -> None:
    with started(tmp_path / "a b#c?d%20é") as (_, url):
        put(url, "job", "kept")
        assert get(url, "job") == "kept"


@linux_only
async def test_watch_starts_a_server_that_died_again_under_the_same_url(folder: Path) -> None:
    with started(folder) as (server, url):
        put(url, "job", "kept")
        pid = server.pid
        assert pid is not None
        watching = asyncio.create_task(server.watch(every_s=0.01))
        os.kill(pid, signal.SIGKILL)
        await until(lambda: server.pid not in (None, pid) and find(folder) == url)
        assert get(url, "job") == "kept"
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
    assert servers_in(folder) == []


def test_a_server_that_will_not_stop_is_killed_after_the_timeout(folder: Path) -> None:
    with started(folder) as (server, url):
        put(url, "job", "kept")
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)
        server.stop(timeout_s=0.2)
        assert servers_in(folder) == []
    with started(folder) as (_, url):
        assert get(url, "job") == "kept"


def test_a_process_without_pidfd_is_watched_by_its_pid() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        stand_in = Orphan(process.pid, None)
        assert stand_in.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            stand_in.wait(0.05)
        stand_in.send_signal(signal.SIGKILL)
    assert stand_in.wait(5) == 0
