"""A corpus of secrets sent through every field: searched for, byte by byte, in all that observes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.e2e.installation import Installation
from tests.observability.collector import Collector
from tests.observability.receiver import Receiver
from tests.observability.scene import metrics_port
from tests.servers import Server
from tests.waiting import until_sync

API_KEY = "gwk_me_corpus0apikey0secret0x"
CORPUS = {
    "payload": "corpus-payload-4242424242424242",
    "tag": "corpus-tag-hunter2",
    "key": "corpus-key-123-45-6789",
    "idempotency": "corpus-idempotency-s3cr3t",
    "callback_secret": "whsec_" + base64.b64encode(b"corpus-callback-secret-padding32").decode(),
    "callback_query": "corpus-callback-query-tok3n",
    "target_path": "corpus-target-path-s3gment",
    "target_header": "corpus-target-header-bearer",
    "target_secret": "whsec_" + base64.b64encode(b"corpus-target-signing-secret-32b").decode(),
    "target_old_secret": "whsec_" + base64.b64encode(b"corpus-target-former-secret-32by").decode(),
    "target_password": "corpus-target-basic-password",
    "registered_token": "corpus-registered-bearer-token",
    "registered_secret": "whsec_" + base64.b64encode(b"corpus-registered-signing-secret").decode(),
    "trigger_secret": "corpus-trigger-secret-value",
    "exception": "corpus-exception-message-pw",
    "result": "corpus-result-of-a-job-pin",
    "header": "corpus-header-cookie-value",
    "user_agent": "corpus-user-agent-value",
    "path": "corpus-path-in-a-request",
    "query": "corpus-query-parameter",
    "body": "corpus-in-a-broken-body",
    "answer": "corpus-answer-of-a-target",
    "redis_password": "corpus-redis-password",
    "otlp_header": "corpus-otlp-header-token",
    "api_key": API_KEY,
    "job_header": "corpus-header-that-a-job-sets",
    "job_path": "corpus-path-that-a-job-sets",
    "job_query": "corpus-query-that-a-job-sets",
    "tracestate": "corpus-in-tracestate-or-baggage",
    "progress": "corpus-progress-of-a-job",
    "fatal": "corpus-message-of-a-fatal-error",
    "stderr": "corpus-printed-by-a-command",
    "argument": "corpus-argument-of-a-command",
    "schedule": "corpus-payload-of-a-schedule",
    "delivery": "corpus-body-of-a-good-delivery",
    "url_password": "corpus-password-in-a-url",
}
CONFIG = """
[egress]
allow = ["127.0.0.1/32"]

[targets.leaky]
executor = "python"
callable = "leaky:leaky"
retry = {{ policy = "fixed", base = "10ms", cap = "1s", max_attempts = 2 }}

[targets.called]
executor = "http"
url = "{receiver}/500?x={target_path}"
headers = {{ "x-token" = "{target_header}" }}
secret = "{target_secret}"
previous_secrets = [{{ secret = "{target_old_secret}" }}]
auth = {{ type = "basic", username = "ada", password = "{target_password}" }}
job_may = ["headers", "path", "query"]
retry = {{ policy = "fixed", base = "10ms", cap = "1s", max_attempts = 2 }}

[targets.printing]
executor = "command"
argv = ["sh", "-c", "echo {stderr} >&2; exit 1", "{argument}"]
retry = {{ policy = "fixed", base = "10ms", cap = "1s", max_attempts = 1 }}

[schedules.often]
cron = "* * * * * *"
target = "leaky"
payload = {{ pin = "{schedule}" }}

[triggers.shop]
verifier = "github"
secrets = ["{trigger_secret}"]
[[triggers.shop.routes]]
when = "headers.\\"x-github-event\\" == 'push'"
target = "leaky"
"""
TASK = """
from gateway import Fatal


def leaky(payload, context):
    context.progress({{"at": "{progress}"}})
    if context.job.key == "fatal":
        raise Fatal("{fatal}")
    if context.number == 1:
        raise ValueError("the password is {exception} for " + str(payload))
    return {{"value": "{result}"}}
"""


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[dict[str, bytes]]:
    """All that observes, after the corpus was sent through everything."""
    password = CORPUS["redis_password"]
    with Server(tcp=True, password=password) as server, Receiver() as receiver, Collector() as collector:
        env = {
            "GATEWAY_API_KEY": API_KEY,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={CORPUS['otlp_header']}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "GATEWAY_GATEWAY_LOG_LEVEL": "debug",
        }
        url = server.url.replace("redis://", f"redis://:{password}@")
        here = Installation(tmp_path, env=env)
        here.client.headers["authorization"] = f"Bearer {API_KEY}"
        here.configure(more=CONFIG.format(receiver=receiver.url, **CORPUS))
        (tmp_path / "leaky.py").write_text(TASK.format(**CORPUS))
        try:
            gateway = here.serve(url)
            dispatcher = here.dispatch(url)
            port = metrics_port(dispatcher)
            with here.client.stream("GET", "/events") as stream:
                lines = stream.iter_lines()
                next(lines)
                errors = send_corpus(here, receiver)
                events = "\n".join(next(lines) for _ in range(60))
            until_sync(lambda: len(collector.spans()) >= 8, timeout_s=60)
            metrics = here.client.get("/metrics").content
            metrics += httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).content
            targets = b"".join(here.client.get(f"/targets{path}").content for path in ("", "/called", "/registered"))
            tokens = {headers["gateway-token"] for _, headers, _ in receiver.requests if "gateway-token" in headers}
            assert len(tokens) >= 3
            health = b"".join(here.client.get(path).content for path in ("/readyz", "/livez"))
            server.kill()
            errors += here.client.get("/jobs").content + here.client.get("/readyz").content
            assert dispatcher.stop() == 0
            assert gateway.stop() == 0
            yield {
                "log of the gateway": gateway.log.read_bytes(),
                "log of the dispatcher": dispatcher.log.read_bytes(),
                "metrics": metrics,
                "traces": b"".join(collector.bodies),
                "events": events.encode(),
                "errors": errors,
                "health": health,
                "targets": targets,
                "tokens of attempts": b" ".join(map(str.encode, tokens)),
            }
        finally:
            here.close()


def send_corpus(here: Installation, receiver: Receiver) -> bytes:
    """Jobs, deliveries and requests that hold the corpus: the answers to those that are refused."""
    client = here.client
    callback = {"url": f"{receiver.url}/200?t={CORPUS['callback_query']}", "secret": CORPUS["callback_secret"]}
    whole: dict[str, Any] = {
        "payload": {"card": CORPUS["payload"]},
        "tags": [CORPUS["tag"]],
        "key": CORPUS["key"],
        "callback": callback,
    }
    request = {
        "headers": {"x-job": CORPUS["job_header"]},
        "path": f"/{CORPUS['job_path']}",
        "query": {"q": CORPUS["job_query"]},
    }
    noisy = {
        "cookie": CORPUS["header"],
        "user-agent": CORPUS["user_agent"],
        "tracestate": f"a={CORPUS['tracestate']}",
        "baggage": f"a={CORPUS['tracestate']}",
    }
    jobs: tuple[dict[str, Any], ...] = (
        {"target": "leaky"},
        {"target": "called", **request},
        {"target": "leaky", "key": "fatal"},
        {"target": "printing"},
        {"target": "registered", "retry": {"policy": "fixed", "base": "10ms", "max_attempts": 2}},
    )
    table: dict[str, Any] = {
        "executor": "http",
        "url": f"{receiver.url}/503-once",
        "secret": CORPUS["registered_secret"],
    }
    table |= {"auth": {"type": "bearer", "token": CORPUS["registered_token"]}}
    assert client.put("/targets/registered", json=table).status_code == 201
    ids = []
    for number, job in enumerate(jobs):
        headers = {"idempotency-key": f"{CORPUS['idempotency']}-{number}", **noisy}
        answer = client.post("/jobs", json={**whole, **job}, headers=headers)
        assert answer.status_code == 202, answer.text
        ids.append(answer.json()["job_id"])
    assert [here.ended(job_id)["status"] for job_id in ids] == ["succeeded", "dead", "dead", "dead", "succeeded"]
    client.post(f"/dlq/{ids[1]}/retry", headers=noisy)
    delivered = json.dumps({"pin": CORPUS["delivery"]}).encode()
    mac = hmac.new(CORPUS["trigger_secret"].encode(), delivered, hashlib.sha256).hexdigest()
    github = {"x-github-event": "push", "x-github-delivery": "d1", "content-type": "application/json", **noisy}
    accepted = client.post("/hooks/shop", content=delivered, headers=github | {"x-hub-signature-256": f"sha256={mac}"})
    assert accepted.status_code == 202, accepted.text
    refused = [
        client.post(
            "/hooks/shop", content=CORPUS["body"].encode(), headers=github | {"x-hub-signature-256": "sha256=0"}
        ),
        client.post("/jobs", content=b'{"target":"leaky","payload":"' + CORPUS["body"].encode(), headers=noisy),
        client.get("/jobs", headers={"authorization": "Bearer gwk_other_" + CORPUS["header"]}),
        client.get(f"/{quote(CORPUS['path'])}?q={CORPUS['query']}", headers=noisy),
        client.get("/jobs", params={"limit": "x" + CORPUS["query"]}),
        *(client.post("/jobs", json={"target": "called", **whole, **wrong}, headers=noisy) for wrong in wrong_fields()),
        client.put("/targets/wrong", json=table | {"secret": CORPUS["registered_secret"] + "%"}),
        client.put("/targets/wrong", json=table | {"headers": {"authorization": CORPUS["registered_token"]}}),
        client.post(f"/jobs/{ids[0]}/complete", json={"token": CORPUS["header"]}),
    ]
    assert {answer.status_code // 100 for answer in refused} == {4}
    return b"".join(answer.content for answer in refused)


def wrong_fields() -> Iterator[dict[str, Any]]:
    """Jobs with one fault each, where a secret may stand. What is a name (of a target, a lane, a field) or a duration
    is repeated to whoever sent it, so that he finds it."""
    yield {"payload": {"a": CORPUS["payload"]}, "tags": [CORPUS["tag"] * 100]}
    yield {"key": CORPUS["key"] * 100}
    yield {"key": [CORPUS["key"]]}
    yield {"idempotency_key": CORPUS["idempotency"] * 100}
    yield {"run_at": CORPUS["payload"]}
    for url in (f"http://u:{CORPUS['url_password']}@127.0.0.1/", f"ftp://x/{CORPUS['callback_query']}"):
        yield {"callback": {"url": url}}
    yield {"callback": {"url": "https://x.example/", "secret": CORPUS["url_password"]}}
    yield {"headers": {"x-job\n": CORPUS["job_header"]}}
    yield {"headers": {"authorization": CORPUS["job_header"] + "\n"}}
    yield {"path": f"/../{CORPUS['job_path']}"}
    yield {"query": [CORPUS["job_query"]]}
    yield {"target": "leaky", "headers": {"x-job": CORPUS["job_header"]}, "path": CORPUS["job_path"]}


def test_no_secret_is_in_anything_that_observes(outputs: dict[str, bytes]) -> None:
    assert b"job accepted" in outputs["log of the gateway"]
    assert b"retry scheduled" in outputs["log of the dispatcher"]
    assert b"leaky" in outputs["metrics"]
    assert b"process leaky" in outputs["traces"]
    assert b"retrying" in outputs["events"]
    tokens = {f"token {at}": text.decode() for at, text in enumerate(outputs.pop("tokens of attempts").split())}
    found = [
        (output, name)
        for output, text in outputs.items()
        for name, secret in (CORPUS | tokens).items()
        for form in forms(secret)
        if form in text
    ]
    assert found == []


def forms(secret: str) -> set[bytes]:
    """A secret as it is, and as it would look after an encoding."""
    raw = secret.removeprefix("whsec_").encode()
    return {
        secret.encode(),
        raw,
        base64.b64encode(raw),
        raw.hex().encode(),
        quote(secret).encode(),
        json.dumps(secret)[1:-1].encode(),
    }
