"""The callback of a target: what its jobs have that name none, however they came in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.jobs import Callback
from gateway.settings import load
from tests.api.running import Running, running
from tests.api.triggered import SENT, TOKEN
from tests.servers import Server

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
CONFIG = f"""
[targets.told]
executor = "python"
callable = "json:dumps"
callback = {{ url = "https://shop.example/dead?k=1", events = ["job.dead"], secret = {{ env = "TOLD_SECRET" }} }}

[triggers.hook]
verifier = "bearer"
secrets = ["{TOKEN}"]
routes = [{{ target = "told" }}]

[schedules.nightly]
cron = "@daily"
target = "told"
"""
TOLD = Callback("https://shop.example/dead?k=1", ("job.dead",), SECRET)
OWN = {"url": "https://other.example/"}


@pytest.fixture
async def api(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    (tmp_path / "gateway.toml").write_text(CONFIG)
    environ = {
        "GATEWAY_REDIS_URL": valkey_server.url,
        "GATEWAY_GATEWAY_NAMESPACE": namespace,
        "TOLD_SECRET": SECRET,
    }
    async with running(load(environ, tmp_path)) as gateway:
        yield gateway


async def callback_of(api: Running, job_id: str) -> Callback | None:
    return (await api.store.find(job_id)).record.options.callback


async def test_submitted_job_has_the_callback_of_its_target_unless_it_names_one(api: Running) -> None:
    plain = (await api.client.post("/jobs", json={"target": "told"})).json()
    assert await callback_of(api, plain["job_id"]) == TOLD
    own = (await api.client.post("/jobs", json={"target": "told", "callback": OWN})).json()
    assert await callback_of(api, own["job_id"]) == Callback(OWN["url"])


async def test_callback_of_an_api_key_goes_before_that_of_the_target(api: Running) -> None:
    key = {"name": "shop", "scopes": ["submit", "admin"], "callback": OWN}
    headers = {"Authorization": f"Bearer {(await api.client.post('/apikeys', json=key)).json()['key']}"}
    job = (await api.client.post("/jobs", json={"target": "told"}, headers=headers)).json()
    assert await callback_of(api, job["job_id"]) == Callback(OWN["url"])


async def test_job_of_a_delivery_has_the_callback_of_its_target(api: Running) -> None:
    answer = await api.client.post("/hooks/hook", content=b"{}", headers=SENT)
    assert await callback_of(api, answer.json()["jobs"][0]["job_id"]) == TOLD


async def test_target_is_shown_with_its_callback_and_without_what_is_secret_of_it(api: Running) -> None:
    answer = await api.client.get("/targets/told")
    assert answer.json()["callback"] == {"url": "https://shop.example/dead", "events": ["job.dead"]}
    assert "whsec" not in answer.text


@pytest.mark.parametrize(
    ("callback", "pointer"),
    [
        ({"url": "ftp://x"}, "/callback/url"),
        ({"url": "http://127.0.0.1:9/"}, "/callback/url"),
        ({"url": OWN["url"], "secret": "short"}, "/callback/secret"),
        ({"url": OWN["url"], "secret": {"env": "PATH"}}, "/callback/secret"),
        ({"url": OWN["url"], "events": []}, "/callback/events"),
        ({"url": OWN["url"], "events": ["job.done"]}, "/callback/events/0"),
        ({"url": OWN["url"], "retry": {"base": "7h"}}, "/callback/retry"),
    ],
)
async def test_fault_of_a_registered_targets_callback_is_named(
    api: Running, callback: dict[str, object], pointer: str
) -> None:
    body = {"executor": "http", "url": "https://shop.example/", "callback": callback}
    answer = await api.client.put("/targets/new", json=body)
    assert answer.status_code == 422, answer.text
    assert [fault["pointer"].rstrip("/") for fault in answer.json()["errors"]] == [pointer], answer.text
