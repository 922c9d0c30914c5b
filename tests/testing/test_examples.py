"""The example plugins of the documentation, run as their readers would run them."""

from __future__ import annotations

import datetime
import importlib.util
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gateway import ConfigError
from gateway.egress.client import EgressClient
from gateway.testing.fixtures import RunningGateway
from gateway.testing.fixtures import gateway as gateway
from gateway.testing.fixtures import gateway_redis_url as gateway_redis_url
from gateway.testing.jobs import JobRun, run_job
from tests.waiting import until

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
FAILS = """
[targets.fails]
executor = "command"
argv = ["false"]
retry = { max_attempts = 1 }
"""


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Receiver:
    """An HTTP server that notes requests and answers as it was told."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answer: tuple[int, dict[str, str], bytes] = (200, {}, b"{}")
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append((self.path, headers, body))
                status, more, answer = receiver.answer
                self.send_response(status)
                for name, value in {**more, "content-length": str(len(answer))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def test_signature_is_that_of_the_published_example() -> None:
    """AWS's suite for Signature Version 4: `get-vanilla`."""
    secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    signer = example("lambda_invoker").Signer("AKIDEXAMPLE", secret, "us-east-1", "service")
    now = datetime.datetime(2015, 8, 30, 12, 36, tzinfo=datetime.UTC)
    headers = signer.headers("GET", "https://example.amazonaws.com/", {}, body=b"", now=now)
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        "SignedHeaders=host;x-amz-date, "
        "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    )


async def invoke(receiver: Receiver, **config: Any) -> JobRun:
    table = {"endpoint": receiver.url, "function": "thumb:live", **config}
    async with EgressClient(["127.0.0.1/32"]) as http:
        retry = {"policy": "fixed", "base": "1s", "max_attempts": 2}
        return await run_job(example("lambda_invoker").LambdaExecutor(), {"n": 1}, config=table, http=http, retry=retry)


async def test_invoker_sends_the_event_and_takes_the_answer(receiver: Receiver) -> None:
    receiver.answer = (200, {}, b'{"thumb": "t.png"}')
    ran = await invoke(receiver, access_key="AKIDEXAMPLE", secret_key="hush")
    assert (ran.status, ran.result) == ("succeeded", {"thumb": "t.png"})
    ((path, headers, body),) = receiver.requests
    assert (path, body) == ("/2015-03-31/functions/thumb:live/invocations", b'{"n":1}')
    assert headers["x-amz-invocation-type"] == "RequestResponse"
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")


@pytest.mark.parametrize(
    ("answer", "reason", "error"),
    [
        ((429, {}, b""), "exhausted", "http"),
        ((503, {}, b""), "exhausted", "http"),
        ((404, {}, b'{"Message":"no such function"}'), "fatal", "http"),
        (
            (200, {"x-amz-function-error": "Unhandled"}, b'{"errorType":"KeyError","errorMessage":"\'n\'"}'),
            "exhausted",
            "KeyError",
        ),
    ],
)
async def test_invoker_tells_failures_apart(receiver: Receiver, answer: Any, reason: str, error: str) -> None:
    receiver.answer = answer
    ran = await invoke(receiver)
    assert (ran.status, ran.reason, ran.error and ran.error["type"]) == ("dead", reason, error)
    assert len(receiver.requests) == (1 if reason == "fatal" else 2)
    assert "authorization" not in receiver.requests[0][1]


async def test_invoker_wants_both_halves_of_a_key(receiver: Receiver) -> None:
    with pytest.raises(ConfigError, match="access_key and secret_key go together"):
        await invoke(receiver, access_key="AKIDEXAMPLE")


async def test_chat_is_told_of_dead_jobs(
    gateway: RunningGateway, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv("CHAT_WEBHOOK_URL", receiver.url)
    await gateway.start(FAILS, plugins=["chat_alerts"])
    job_id = await gateway.submit("fails")
    assert (await gateway.ended(job_id)).reason == "exhausted"

    async def told() -> bool:
        return bool(receiver.requests)

    await until(told)
    message = json.loads(receiver.requests[0][2])
    assert message == {"text": f"Job {job_id} of fails is dead: exhausted, after 1 attempts"}


def test_chat_that_is_away_blocks_nobody_and_hears_how_much_it_missed() -> None:
    chat_alerts = example("chat_alerts")
    entered, go, sent = threading.Event(), threading.Event(), list[str]()

    def send(message: str) -> None:
        sent.append(message)
        entered.set()
        go.wait(5)
        if len(sent) == 1:
            raise OSError("away")

    alerts = chat_alerts.Alerts(send, pause_s=0)
    alerts.tell("first")
    assert entered.wait(5)
    for number in range(chat_alerts.WAITING + 7):
        alerts.tell(str(number))
    entered.clear()
    go.set()
    assert entered.wait(5)
    assert sent[:2] == ["first", "0 (and 7 more that are not listed)"]
