"""The process that starts commands for a dispatcher and lets none outlive it; a script of the standard library only.

    dispatcher ── launcher (this script: one, small, single-threaded)
                    └── supervisor (a fork of it, one per attempt) ── the command, in a session of its own

The dispatcher is large and threaded: to fork it is slow, and to set a child up between fork and exec unsafe. Here it
is neither. A supervisor adopts whatever its command leaves behind (it is a child subreaper), so that a daemon in a
session of its own is found and killed as well. It kills when it is told to, when the dispatcher's end of its control
socket closes, and when the launcher dies. The kernel kills the launcher with the dispatcher, and the command with its
supervisor, whose other orphans the launcher adopts and kills. Subreapers and parent-death signals are Linux's;
elsewhere the sockets alone tell of a death.

The launcher gets one byte per attempt, with four descriptors: control, standard input, output, error. On control the
supervisor gets four bytes of length and that much JSON {argv, env, cwd, grace_s}, then `t` (SIGTERM, SIGKILL after the
grace) or `k` (SIGKILL now). It answers a line of JSON, {exit_code, signal} or {failed, errno} (the first counts), and
closes when nothing of the command is left.

The JSON may also hold `umask`; `rlimits` {name: value}, by their names in lower case without `RLIMIT_`; `user`
{uid, gid, groups}, which takes a launcher of root's; `temp`, true for a folder of the command's own, which `$TMPDIR`
names and which is removed at the end, and `files` {variable: text}, each in a file there, which the variable names. A
`cwd` of `$TMPDIR` is that folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import json
import os
import resource
import select
import shutil
import signal
import socket
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from typing import Any, NoReturn

SIZE_BYTES = 4
PARENT_DIED = signal.SIGUSR1
_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
TEMP = "$TMPDIR"
_TEMP_ROOT = tempfile.gettempdir()
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_IGNORED = [
    number
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    if number in _STOPPING or signal.getsignal(number) == signal.SIG_IGN
]
"""What a command must not find ignored, as it would: handlers do not outlive an exec, but this does."""


def launch(channel: socket.socket, dispatcher: int) -> None:
    """Forks a supervisor for every request, until the dispatcher is gone; kills what a killed supervisor leaves."""
    _die_with(dispatcher, signal.SIGKILL)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in _STOPPING:  # a service manager signals every process: the dispatcher says when commands stop
        signal.signal(number, signal.SIG_IGN)
    signals = _watch_signals(signal.SIGCHLD)
    gc.freeze()
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    poller.register(signals, select.POLLIN)
    supervisors: set[int] = set()
    while True:
        events = dict(poller.poll())
        if signals in events:
            os.read(signals, 512)
            supervisors -= _reap()
            _kill(pid for pid in _children() if pid not in supervisors)
        if channel.fileno() in events and not _accept(channel, supervisors):
            return


def _accept(channel: socket.socket, supervisors: set[int]) -> bool:
    """Serves one request; False if there will be no more."""
    mark, descriptors, _, _ = socket.recv_fds(channel, 1, 4)
    if len(descriptors) == 4:
        supervisors |= _fork_supervisor(channel, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    return bool(mark)


def _reap() -> set[int]:
    reaped = set()
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            reaped.add(pid)
    return reaped


def _fork_supervisor(channel: socket.socket, descriptors: list[int]) -> set[int]:
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    launcher = os.getpid()
    try:
        pid = os.fork()
    except OSError as exc:
        with socket.socket(fileno=os.dup(descriptors[0])) as control:
            _report(control, failed="fork", errno=exc.errno)
        return set()
    if pid == 0:
        gc.disable()
        try:
            channel.close()
            _supervise(socket.socket(fileno=descriptors[0]), descriptors[1:], launcher)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    return {pid}


def _supervise(control: socket.socket, standard: list[int], launcher: int) -> None:
    """Runs one command to its end, then kills what is left of it."""
    _die_with(launcher, PARENT_DIED)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    if (spec := _receive(control)) is None:
        return
    signals = _watch_signals(signal.SIGCHLD, PARENT_DIED)
    # named before it is made: what cannot be filled is removed with what is in it already
    temp = f"{_TEMP_ROOT}/gateway-{os.urandom(8).hex()}" if spec.get("temp") else ""
    try:
        if temp:
            _make_temp(temp, spec)
        _run(spec, control, standard, signals)
    except OSError as exc:
        _report(control, failed="temp", errno=exc.errno)
    finally:
        _remove(temp)


def _run(spec: dict[str, Any], control: socket.socket, standard: list[int], signals: int) -> None:
    supervisor = os.getpid()
    try:
        command = os.fork()
    except OSError as exc:
        _report(control, failed="fork", errno=exc.errno)
        return
    if command == 0:
        _become(spec, control, standard, supervisor)
    for descriptor in standard:
        os.close(descriptor)
    try:
        _attend(command, control, signals, spec["grace_s"])
    finally:
        _kill_all(command)


def _make_temp(folder: str, spec: dict[str, Any]) -> None:
    """The command's own folder, with its files in it."""
    os.mkdir(folder, stat.S_IRWXU)
    spec["env"]["TMPDIR"] = folder
    if spec["cwd"] == TEMP:
        spec["cwd"] = folder
    owned = [folder]
    for variable, text in spec.get("files", {}).items():
        path = os.path.join(folder, f".{variable}")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "w", encoding="utf-8") as file:
            file.write(text)
        spec["env"][variable] = path
        owned.append(path)
    if (user := spec.get("user")) is not None:
        for path in owned:
            os.chown(path, user["uid"], user["gid"])


def _remove(folder: str) -> None:
    """Removes a folder, also where the command has locked parts of it."""
    if not folder:
        return
    with contextlib.suppress(OSError):
        os.rmdir(folder)  # most commands leave nothing in it
        return

    def unlock(remove: Any, path: str, _: Any) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), stat.S_IRWXU)
            if not os.path.islink(path):
                os.chmod(path, stat.S_IRWXU)
            if remove in (os.open, os.scandir, os.lstat):
                shutil.rmtree(path, ignore_errors=True)
            else:
                remove(path)

    shutil.rmtree(folder, onerror=unlock)


def _receive(control: socket.socket) -> dict[str, Any] | None:
    """What to run; None if the dispatcher is gone before it has said so."""
    try:
        size = int.from_bytes(control.recv(SIZE_BYTES, socket.MSG_WAITALL), "big")
        text = control.recv(size, socket.MSG_WAITALL) if size else b""
    except ConnectionError:
        return None
    spec: dict[str, Any] | None = json.loads(text) if size and len(text) == size else None
    return spec


def _attend(command: int, control: socket.socket, signals: int, grace_s: float) -> None:
    """Tells how the command ended; returns when it is time to kill."""
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(signals, select.POLLIN)
    told, kill_at = False, None
    while True:
        if not told and (ending := _ending(command)) is not None:
            _report(control, exit_code=ending[0], signal=ending[1])
            told = True
        if told and kill_at is not None:
            return
        events = dict(poller.poll(None if kill_at is None else max(0.0, kill_at - time.monotonic()) * 1000))
        if not events or (signals in events and PARENT_DIED in os.read(signals, 512)):
            return
        if control.fileno() in events:
            if _order(control) != b"t":
                return
            _kill_group(command, signal.SIGTERM)
            kill_at = time.monotonic() + grace_s


def _order(control: socket.socket) -> bytes:
    try:
        return control.recv(1)
    except ConnectionError:
        return b""


def _ending(command: int) -> tuple[int, int] | None:
    """The command's exit code (128 + the signal that killed it) and that signal, 0 for none; None while it runs.

    It is not reaped: while it is a zombie its number, which is its group's, cannot become a stranger's.
    """
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        pid, status = os.waitpid(command, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status)
        return None if pid == 0 else (code, 0) if code >= 0 else (128 - code, -code)
    while (seen := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
        if seen.si_pid == command:
            killed = seen.si_code != os.CLD_EXITED
            return (128 + seen.si_status, seen.si_status) if killed else (seen.si_status, 0)
        os.waitpid(seen.si_pid, 0)
    return None


def _kill_all(command: int) -> None:
    """Kills the command's group, then everyone who was adopted, until there is nobody."""
    _kill_group(command, signal.SIGKILL)
    while True:
        _kill(_children())
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _kill_group(command: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(command, number)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(command, number)  # it may not have made its group yet


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _children() -> list[int]:
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as listing:
            return [int(child) for child in listing.read().split()]
    except OSError:
        return []


def _become(spec: dict[str, Any], control: socket.socket, standard: list[int], supervisor: int) -> NoReturn:
    """In the new process: turns into the command, or says why not."""
    step = "setup"
    try:
        os.setsid()
        _die_with(supervisor, signal.SIGKILL)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_DFL)
        for target, descriptor in enumerate(standard):
            os.dup2(descriptor, target)
        for name, value in {"core": 0, **spec.get("rlimits", {})}.items():
            _limit(getattr(resource, f"RLIMIT_{name.upper()}"), value)
        if spec.get("umask") is not None:
            os.umask(spec["umask"])
        if (user := spec.get("user")) is not None:
            step = "user"
            os.setgroups(user["groups"])
            os.setgid(user["gid"])
            os.setuid(user["uid"])
            step = "setup"
            _die_with(supervisor, signal.SIGKILL)  # another user has none
        if spec["cwd"] is not None:
            step = "cwd"
            os.chdir(spec["cwd"])
        step = "exec"
        _execute(spec["argv"], spec["env"])
    except OSError as exc:
        _report(control, failed=step, errno=exc.errno)
    finally:
        os._exit(127)


def _execute(argv: list[str], env: dict[str, str]) -> NoReturn:
    """As `os.execvpe`, which takes a fifth of the whole time of a short command to warn of bytes in the PATH."""
    if "/" in argv[0]:
        os.execve(argv[0], argv, env)  # noqa: S606 - argv, never a shell
    found: OSError | None = None
    missing: OSError = FileNotFoundError(errno.ENOENT, "no PATH")
    for folder in env.get("PATH", os.defpath).split(":"):
        try:
            os.execve(f"{folder or '.'}/{argv[0]}", argv, env)  # noqa: S606 - as above
        except (FileNotFoundError, NotADirectoryError) as exc:
            missing = exc
        except OSError as exc:
            found = found or exc
    raise found or missing


def _limit(number: int, value: int) -> None:
    """Lowers a limit; one that is lower already stays."""
    hard = resource.getrlimit(number)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (value, value))


def _watch_signals(*numbers: int) -> int:
    """A descriptor that becomes readable, with the signal's number, when one of these arrives."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return reading


def _die_with(parent: int, number: int) -> None:
    """Has the kernel send `number` to this process when `parent`, which must be its parent, dies."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, number)
    if os.getppid() != parent:
        os._exit(0)


def _prctl(option: int, value: int) -> None:
    if _LIBC is not None:
        _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _report(control: socket.socket, **fields: str | int | None) -> None:
    with contextlib.suppress(OSError):  # the dispatcher may be gone
        control.sendall(json.dumps(fields).encode() + b"\n")


if __name__ == "__main__":
    launch(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
