"""Redis away, silent or full: answered in time, and served again without a restart."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway.api import create_app
from gateway.api.server import check_start, open_store
from gateway.errors import ConfigError, StoreMismatch
from gateway.registry import Registry
from gateway.store.apikeys import create_key
from tests.api.running import Running, running, settings_for
from tests.proxy import Proxy
from tests.servers import Server
from tests.waiting import soon

JOB = b'{"target":"echo"}'
WAIT_S = 60.0


@pytest.fixture
def own_server() -> Iterator[Server]:
    with Server(tcp=True) as server:
        yield server


async def assert_unavailable(api: Running, method: str = "POST", path: str = "/jobs") -> None:
    """503 with Retry-After as a problem, within 2 s."""

    async def ask() -> httpx.Response:
        return await api.client.request(method, path, content=JOB if method == "POST" else None)

    answer = await soon(ask, within_s=2.0)
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["content-type"] == "application/problem+json"
    assert "127.0.0.1" not in answer.text


async def until(api: Running, status: int, method: str, path: str, content: bytes | None = None) -> None:
    """Asks again until the answer is the one that is waited for."""
    for _ in range(200):
        if (await api.client.request(method, path, content=content)).status_code == status:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{path} did not become {status}")


async def until_accepted(api: Running) -> None:
    """Waits until a job is taken in."""
    await until(api, 202, "POST", "/jobs", JOB)


PATHS = [
    ("POST", "/jobs"),
    ("GET", "/jobs"),
    ("GET", "/jobs/01a22780-5329-7d03-8458-4c0287d2a700"),
]


async def test_routes_are_503_within_two_seconds_when_redis_is_killed(own_server: Server, tmp_path: Path) -> None:
    async with running(settings_for(tmp_path, own_server.url, "t")) as api:
        await until_accepted(api)
        own_server.kill()
        for method, path in PATHS:
            await assert_unavailable(api, method, path)
        metrics = await api.client.get("/metrics")
        assert metrics.status_code == 503
        assert "\ngateway_redis_up 0.0\n" in metrics.text
        assert "\ngateway_scrape_failures_total 1.0\n" in metrics.text
        ready = await api.client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "unready")
        assert (await api.client.get("/livez")).status_code == 200
        own_server.start()
        await until_accepted(api)
        assert (await api.client.get("/readyz")).status_code == 200


async def test_routes_are_503_within_two_seconds_when_redis_is_silent(own_server: Server, tmp_path: Path) -> None:
    async with running(settings_for(tmp_path, own_server.url, "t")) as api:
        await until_accepted(api)
        own_server.suspend()
        try:
            async with asyncio.TaskGroup() as asked:
                for method, path in PATHS:
                    asked.create_task(assert_unavailable(api, method, path))
            assert (await soon(lambda: api.client.get("/readyz"), within_s=2.0)).status_code == 503
        finally:
            own_server.resume()
        await until_accepted(api)


async def test_gateway_starts_and_recovers_when_redis_is_away_at_first(own_server: Server, tmp_path: Path) -> None:
    own_server.kill()
    async with running(settings_for(tmp_path, own_server.url, "t")) as api:
        await assert_unavailable(api)
        ready = await api.client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["reason"]
        own_server.start()
        await until(api, 200, "GET", "/readyz")
        await until_accepted(api)


async def assert_refusal_is_told(api: Running, refusal: str, mend: str) -> None:
    """In the answers to a client and to a provider, with the mend at /readyz alone."""
    for path in ("/jobs", "/hooks/github"):
        answer = await api.client.post(path, content=JOB, headers=None if path == "/jobs" else signed(JOB, "g-1"))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["detail"].startswith(refusal)
        assert "send it again" in answer.json()["detail"]
        assert mend not in answer.text
    assert mend in (await api.client.get("/readyz")).json()["reason"]


async def test_answer_says_so_when_redis_cannot_write_to_its_disk(tmp_path: Path) -> None:
    (folder := tmp_path / "data").mkdir()
    saves = ("--save", "3600 1", "--stop-writes-on-bgsave-error", "yes", "--dir", str(folder))
    with Server(extra=saves) as server, server.client() as client:
        async with running(settings_for(tmp_path, server.url, "t")) as api:
            await until_accepted(api)
            folder.rmdir()
            client.bgsave()
            await until(api, 503, "POST", "/jobs", JOB)
            await assert_refusal_is_told(api, "Redis cannot write to its disk (MISCONF); ", "its log says")


async def test_answer_says_so_when_redis_lets_its_user_do_too_little(tmp_path: Path) -> None:
    with Server() as server, server.client() as client:
        async with running(settings_for(tmp_path, server.url, "t")) as api:
            await until_accepted(api)
            client.execute_command("ACL", "SETUSER", "default", "-fcall", "-evalsha", "-eval")
            told = "Redis does not let this user do what is needed (NOPERM: no permissions to run the 'eval"
            await assert_refusal_is_told(api, told, "give its user the rights")


async def test_jobs_are_503_and_the_rest_works_when_redis_is_full(tmp_path: Path) -> None:
    with Server(extra=("--maxmemory", "3mb", "--maxmemory-policy", "noeviction")) as server:
        async with running(settings_for(tmp_path, server.url, "t")) as api:
            body = b'{"target":"echo","payload":"' + b"x" * 200_000 + b'"}'
            async with asyncio.timeout(WAIT_S):
                while (answer := await api.client.post("/jobs", content=body)).status_code == 202:
                    pass
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.headers["content-type"] == "application/problem+json"
            assert (await api.client.get("/jobs")).status_code == 200
            assert (await api.client.get("/livez")).status_code == 200
            unready = await api.client.get("/readyz")
            assert (unready.status_code, "memory limit" in unready.json()["reason"]) == (503, True)


async def test_start_is_refused_when_redis_may_evict(tmp_path: Path) -> None:
    with Server(extra=("--maxmemory-policy", "allkeys-lru")) as server:
        settings = settings_for(tmp_path, server.url, "t")
        store = open_store(settings)
        app = create_app(settings, store, Registry.build(settings), close_store=True)
        with pytest.raises(StoreMismatch, match="noeviction"):
            async with app.router.lifespan_context(app):
                pass


async def test_start_is_refused_when_an_open_address_has_no_key(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, GATEWAY_GATEWAY_HOST="0.0.0.0")
    store = open_store(settings)
    try:
        with pytest.raises(ConfigError, match="GATEWAY_API_KEY"):
            await check_start(settings, store)
        await create_key(store, "first", ["read"], now_ms=1)
        await check_start(settings, store)
    finally:
        await store.aclose()


async def test_unopened_application_opens_its_store_by_itself(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace)
    store = open_store(settings)
    app = create_app(settings, store, Registry.build(settings))
    try:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            answers = await asyncio.gather(*(client.post("/jobs", content=JOB) for _ in range(5)))
        assert [answer.status_code for answer in answers] == [202] * 5
    finally:
        await store.aclose()


def signed(body: bytes, guid: str) -> dict[str, str]:
    """The headers of a delivery from GitHub."""
    mac = hmac.new(b"the-secret", body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={mac}", "X-GitHub-Event": "push", "X-GitHub-Delivery": guid}


async def test_delivery_is_503_when_redis_is_away_and_one_set_of_jobs_when_it_is_sent_again(
    own_server: Server, tmp_path: Path
) -> None:
    body = b'{"ref":"main"}'
    async with running(settings_for(tmp_path, own_server.url, "t")) as api:
        await until_accepted(api)
        before = await api.queued()
        own_server.kill()
        answer = await api.client.post("/hooks/github", content=body, headers=signed(body, "g-1"))
        assert "under the id that it has" in answer.json()["detail"]
        assert "idempotency key" not in answer.json()["detail"]
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        own_server.start()
        await until(api, 200, "GET", "/readyz")
        first = await api.client.post("/hooks/github", content=body, headers=signed(body, "g-1"))
        again = await api.client.post("/hooks/github", content=body, headers=signed(body, "g-1"))
        assert (first.status_code, again.json()["duplicate"]) == (202, True)
        assert await api.queued() in (2, before + 2)  # what was there before may be lost with the server's memory


async def test_delivery_whose_reply_was_lost_makes_one_set_of_jobs(tmp_path: Path) -> None:
    body = b'{"ref":"main"}'
    with Server() as server:
        async with Proxy(server) as proxy, running(settings_for(tmp_path, proxy.url, "t")) as api:
            await until_accepted(api)
            proxy.lose_reply_to("refs-are-lost")
            lost = b'{"ref":"refs-are-lost"}'
            answer = await api.client.post("/hooks/github", content=lost, headers=signed(lost, "g-1"))
            assert answer.status_code == 202
            assert proxy.lost == 1
            assert await api.queued() == 1 + 2
            assert (await api.client.post("/hooks/github", content=body, headers=signed(body, "g-2"))).json()["jobs"]


async def test_deliveries_are_acknowledged_within_a_second_when_redis_is_slow_and_nobody_works(tmp_path: Path) -> None:
    """No dispatcher runs here; every reply of Redis comes 100 ms late.

    Each round takes at least as long as the replies that its deliveries wait for, so one that waits for ten of them
    never passes. A busy machine may spoil some rounds, but not what the fastest one tells.
    """
    with Server() as server:
        async with Proxy(server) as proxy, running(settings_for(tmp_path, proxy.url, "t")) as api:
            await until_accepted(api)
            proxy.delay_s = 0.1

            async def deliver(at: int) -> float:
                body = b'{"ref":"r%d"}' % at
                event = "push" if at % 5 else "star"  # one in five goes nowhere, and is written down first
                headers = signed(body, f"g-{at}") | {"X-GitHub-Event": event}
                began_s = time.monotonic()
                answer = await api.client.post("/hooks/github", content=body, headers=headers)
                assert answer.status_code == 202
                return time.monotonic() - began_s

            slowest_s, rounds = math.inf, 0
            while slowest_s >= 1.0 and rounds < 8:
                at_once = range(10 * rounds, 10 * rounds + 10)
                slowest_s = min(slowest_s, max(await asyncio.gather(*(deliver(at) for at in at_once))))
                rounds += 1
            assert 0.1 <= slowest_s < 1.0
            proxy.delay_s = 0.0
            assert await api.queued() == 1 + rounds * 8 * 2
