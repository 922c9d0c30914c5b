"""`gateway demo`: it shows what it says, fails where that is not so, and leaves nothing behind in any case."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import hmac
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from gateway import Secret
from gateway.cli.demo import play
from gateway.cli.demo.installation import HERE, running_gateway
from gateway.cli.demo.push import make_push
from gateway.cli.demo.receiver import Received, Receiver
from gateway.cli.demo.stage import Stage
from gateway.cli.demo.steps import STEPS, Step, die, recover
from gateway.errors import GatewayError
from gateway.registry import Registry
from gateway.settings import load
from gateway.verifier import WebhookRequest
from plugins.github import GithubConfig, GithubVerifier
from tests.processes import processes_of
from tests.waiting import until_sync

COMMAND = [sys.executable, "-P", "-m", "gateway", "demo"]
MOST_S = 20.0
HOSTILE = {
    "GATEWAY_REDIS_URL": "redis://127.0.0.1:1",
    "REDIS_URL": "redis://127.0.0.1:1",
    "GATEWAY_CONFIG": "absent.toml",
    "GATEWAY_API_KEY": "gwk_a_0123456789abcdef",
    "PORT": "1",
    "HTTP_PROXY": "http://127.0.0.1:1",
}
"""What a user's shell may hold; the demo is none of its business."""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder with one to run in and one for temporary files, its path short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="gwdemo-", dir="/tmp"))
    (folder / "here").mkdir()
    (folder / "tmp").mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def demo(temporary: Path, *arguments: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """The command, run in the empty folder `here`."""
    with subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=temporary / "here",
        env={**os.environ, "TMPDIR": str(temporary / "tmp"), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], part: str) -> str:
    """The output up to the first line that holds `part`."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if part in line:
            return "".join(lines)
    raise AssertionError(f"{part!r} never came:\n{''.join(lines)}")


def assert_nothing_left(temporary: Path) -> None:
    until_s = time.monotonic() + 10
    while left := processes_of(temporary / "tmp"):
        assert time.monotonic() < until_s, left
        time.sleep(0.02)
    assert [*(temporary / "here").iterdir(), *(temporary / "tmp").iterdir()] == []


@linux_only
def test_demo_comes_out_as_told_in_time_and_leaves_nothing_when_run_anywhere(temporary: Path) -> None:
    began_s = time.monotonic()
    with demo(temporary, **HOSTILE) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert time.monotonic() - began_s < MOST_S
    assert_nothing_left(temporary)
    for number, step in enumerate(STEPS, 1):
        assert f"{number}  {step.title}" in output
    assert output.count("   ✓ ") == len(STEPS)
    for told in ("job.succeeded after 3 attempts", "job.dead after 2 attempts", "v1 verified", "v1a verified"):
        assert told in output
    assert "Traceback" not in output


@linux_only
@pytest.mark.parametrize(
    ("moment", "sig"),
    [("Starting", signal.SIGINT), ("The gateway listens", signal.SIGTERM), ("5  A job", signal.SIGHUP)],
)
def test_demo_leaves_nothing_when_it_is_interrupted(temporary: Path, moment: str, sig: signal.Signals) -> None:
    with demo(temporary) as process:
        read_until(process, moment)
        os.killpg(process.pid, sig)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert_nothing_left(temporary)


@linux_only
def test_demo_leaves_no_process_when_it_is_killed(temporary: Path) -> None:
    with demo(temporary) as process:
        read_until(process, "1  ")
        assert len(processes_of(temporary / "tmp")) > 3
        process.kill()
        process.wait(10)
        until_sync(lambda: not processes_of(temporary / "tmp"))


@linux_only
def test_demo_stays_up_until_ctrl_c_when_it_is_asked_to(temporary: Path) -> None:
    with demo(temporary, "--stay") as process:
        output = read_until(process, "/openapi.json")
        url = re.search(r"listens on (\S+)", output)
        assert url is not None
        dead = httpx.get(f"{url[1]}/dlq", trust_env=False).json()["jobs"]
        assert [job["reason"] for job in dead] == ["exhausted"]
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output
    assert_nothing_left(temporary)


def test_demo_fails_and_says_what_was_wrong_when_a_step_does_not_come_out() -> None:
    def wrong(stage: Stage) -> str:
        raise GatewayError("the sky: expected 'blue', got 'green'")

    told = io.StringIO()
    before = {sig: signal.getsignal(sig) for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    assert play([Step("Look up", wrong), STEPS[0]], console=Console(file=told, width=300)) == 1
    assert "✗ the sky: expected 'blue', got 'green'" in told.getvalue()
    assert "the end of the log of `gateway dispatch`" in told.getvalue()
    assert STEPS[0].title not in told.getvalue()
    assert {sig: signal.getsignal(sig) for sig in before} == before


def test_demo_says_which_process_ended_when_its_configuration_is_wrong(tmp_path: Path) -> None:
    spoilt(tmp_path, {"demo.toml": ('executor = "http"', 'executor = "htp"')})
    told = io.StringIO()
    assert play(STEPS, console=Console(file=told, width=300), sources=tmp_path) == 1
    assert "ended with exit code 78" in told.getvalue()
    assert 'did you mean "http"' in told.getvalue()


def test_every_step_fails_when_what_it_shows_is_not_so(tmp_path: Path) -> None:
    """Payloads arrive changed, jobs do not fail, deliveries get a fresh id and a right signature on their way."""
    spoil = {"demo_tasks.py": ("    if context.number", "    return receipt(context.payload.raw + b' ')\n    if False")}
    with staged(spoilt(tmp_path, spoil), resign=True) as stage:
        for step in STEPS:
            with pytest.raises(GatewayError, match="expected"):
                step.run(stage)


def test_callback_steps_fail_when_a_callback_was_changed_on_its_way() -> None:
    class Tampering(Receiver):
        def next_callback(self, timeout_s: float) -> Received:
            received = super().next_callback(timeout_s)
            return dataclasses.replace(received, body=received.body.replace(b'"attempts":', b'"attempts": '))

    with staged(HERE, receiver=Tampering()) as stage:
        for step in (recover, die):
            with pytest.raises(GatewayError, match="does not verify: mismatch"):
                step(stage)


def test_push_is_of_a_real_ones_size_and_signed_as_github_signs() -> None:
    push = make_push("the-secret")
    assert 20_000 <= len(push.body) <= 25_000
    headers = tuple((name.lower(), value) for name, value in push.headers.items())
    verifier = GithubVerifier(GithubConfig(secrets=(Secret("the-secret"),)))
    delivery = verifier.verify(WebhookRequest("POST", "http://localhost/hooks/github", headers, push.body), 0.0)
    assert delivery.event == "push"
    for part in (b"9007199254740993", b":1.0", b"[]", b"{}"):
        assert part in push.body
    assert make_push("the-secret").body != push.body


def test_configuration_has_a_target_for_each_executor_and_loads(tmp_path: Path) -> None:
    text = (HERE / "demo.toml").read_text().replace("$receiver", "http://127.0.0.1:8000").replace("$python", "true")
    (tmp_path / "gateway.toml").write_text(text)
    registry = Registry.build(load({"DEMO_GITHUB_SECRET": "s"}, tmp_path))
    assert {target.executor.name for target in registry.targets.values()} == set(registry.executors)
    assert list(registry.triggers) == ["github"]


def spoilt(folder: Path, changes: dict[str, tuple[str, str]]) -> Path:
    """The demo's sources with one text in each of some files replaced."""
    for name in ("demo.toml", "demo_tasks.py"):
        text = (HERE / name).read_text()
        old, new = changes.get(name, ("", ""))
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1) if old else text)
    return folder


@contextlib.contextmanager
def staged(sources: Path, *, receiver: Receiver | None = None, resign: bool = False) -> Iterator[Stage]:
    """A stage whose story nobody reads; with `resign`, every delivery is made a new and genuine one on its way."""
    with (
        receiver or Receiver() as receiver,
        running_gateway(receiver.url, sources=sources) as gateway,
        httpx.Client(base_url=gateway.url, timeout=10, trust_env=False) as api,
    ):

        def renew(request: httpx.Request) -> None:
            if "x-hub-signature-256" in request.headers:
                mac = hmac.new(gateway.github_secret.encode(), request.content, hashlib.sha256).hexdigest()
                renewed: dict[str, Any] = {
                    "x-hub-signature-256": f"sha256={mac}",
                    "x-github-delivery": uuid.uuid4().hex,
                }
                request.headers.update(renewed)

        if resign:
            api.event_hooks = {"request": [renew]}
        yield Stage(api, receiver, Console(file=io.StringIO()), gateway.github_secret)
