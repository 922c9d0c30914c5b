"""No way out of a dispatcher leads around the guard: targets, bare URLs, callbacks, notices, what functions send."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path

import orjson
import pytest

from gateway.jobs import URL_TARGET, Callback, JobRequest, Options
from gateway.store.listing import list_jobs
from gateway.store.registered import put_registered
from tests.dispatch.running import Client, Dispatching, dispatching, settings_for
from tests.egress.receiver import Receiver, always, answer
from tests.egress.spellings import DENIED, loopback
from tests.servers import Server

ALLOWED = "127.0.0.2"
CONFIG = f"""
[targets.call]
executor = "python"
callable = "tests.dispatch.tasks:call_out"
retry = {{ policy = "fixed", base = "10ms", max_attempts = 3 }}
[egress]
allow = ["{ALLOWED}/32"]
"""


async def register(client: Client, url: str) -> str:
    """The name of a new target."""
    name = f"t{secrets.token_hex(8)}"
    await put_registered(client.store, name, orjson.dumps({"executor": "http", "url": url}))
    return name


async def by_target(running: Dispatching, urls: Sequence[str]) -> list[str]:
    client = running.client
    return [await client.submit(await register(client, url), 1) for url in urls]


async def by_url(running: Dispatching, urls: Sequence[str]) -> list[str]:
    return [await running.client.submit(URL_TARGET, 1, options=Options(request=JobRequest(url=url))) for url in urls]


async def by_callback(running: Dispatching, urls: Sequence[str]) -> list[str]:
    client = running.client
    causes = [await client.submit("echo", 1, options=Options(callback=Callback(url))) for url in urls]
    for job_id in causes:
        await client.ended(job_id)
    return [(await client.record(job_id)).callback_job_id for job_id in causes]


async def by_notice(running: Dispatching, urls: Sequence[str]) -> list[str]:
    """Each URL is told of a target that is gone."""
    client, told = running.client, []
    async with Receiver(always(answer("410 Gone")), host=ALLOWED) as gone:
        for url in urls:
            ops = await register(client, url)
            client.store.expect_notices((ops, "default", 3))
            await client.store.configure()
            await client.ended(await client.submit(await register(client, gone.url), 1))
            page = await list_jobs(client.store, None, target=ops, limit=9)
            (job_id,) = {record.job_id for record in page.records}  # one that moves may be met twice
            told.append(job_id)
    return told


async def by_function(running: Dispatching, urls: Sequence[str]) -> list[str]:
    return [await running.client.submit("call", {"url": url}) for url in urls]


Way = Callable[[Dispatching, Sequence[str]], Awaitable[list[str]]]
every_way = pytest.mark.parametrize("way", [by_target, by_url, by_callback, by_notice, by_function])


@pytest.fixture
async def inside() -> AsyncIterator[Receiver]:
    async with Receiver(always(answer())) as receiver:
        yield receiver
        assert receiver.connections == 0


async def is_denied(client: Client, job_id: str, url: str) -> None:
    record = await client.ended(job_id)
    error = orjson.loads(record.error)
    assert (url, record.status.value, record.reason, record.attempts) == (url, "dead", "fatal", 1)
    assert (url, error["type"]) == (url, "egress_denied"), error


@every_way
async def test_address_that_is_not_public_is_denied_however_it_is_spelled(
    way: Way, tmp_path: Path, valkey_server: Server, namespace: str, inside: Receiver
) -> None:
    urls = [f"http://{host}:{inside.port}/in" for host in DENIED]
    settings = settings_for(tmp_path, valkey_server.url, namespace, more=CONFIG)
    async with dispatching(settings, lookup=loopback) as running:
        for url, job_id in zip(urls, await way(running, urls), strict=True):
            await is_denied(running.client, job_id, url)


@every_way
async def test_name_that_rebinds_is_denied_and_what_is_allowed_is_open(
    way: Way, tmp_path: Path, valkey_server: Server, namespace: str, inside: Receiver
) -> None:
    answers: Iterator[str] = chain([ALLOWED], repeat("127.0.0.1"))

    async def rebinds(host: str) -> list[str]:
        return [next(answers)]

    settings = settings_for(tmp_path, valkey_server.url, namespace, more=CONFIG)
    async with (
        Receiver(always(answer()), host=ALLOWED) as outside,
        dispatching(settings, lookup=rebinds) as running,
    ):
        for url in (f"http://rebinds.example:{outside.port}/", outside.url):
            (job_id,) = await way(running, [url])
            assert (await running.client.ended(job_id)).status == "succeeded"
        await outside.arrived(2)
        url = f"http://rebinds.example:{inside.port}/"
        (job_id,) = await way(running, [url])
        await is_denied(running.client, job_id, url)
