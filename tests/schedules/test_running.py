"""Schedules as they run: a real dispatcher on the real clock, and the command line."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import orjson

from gateway.settings import load
from gateway.store import Store
from gateway.store.listing import list_jobs
from gateway.store.schedules import find_schedule, list_schedules
from tests.cli.shell import Shell
from tests.dispatch.running import dispatching, settings_for
from tests.servers import Server
from tests.waiting import until

EVERY_SECOND = '[schedules.tick]\ncron = "* * * * * *"\ntarget = "echo"\npayload = "tick"\n'


async def test_schedule_of_each_second_fires_each_slot_once_when_two_dispatchers_run(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, more=EVERY_SECOND)
    async with dispatching(settings) as running, dispatching(settings):
        store = running.client.store

        async def two_fired() -> bool:
            counters = (await store.inspect()).counters
            return counters.get("schedule_fired:tick", 0) >= 2 and counters.get("succeeded:default:echo", 0) >= 2

        await until(two_fired, timeout_s=60)
        standing = await find_schedule(store, "tick")
        slots = sorted(await _slots(store))
    assert len(slots) >= 2
    assert slots == [slots[0] + 1000 * at for at in range(len(slots))]
    assert standing.missed == 0


async def test_fired_job_is_told_to_plugins_as_accepted(valkey_server: Server, namespace: str, tmp_path: Path) -> None:
    (tmp_path / f"told_{namespace}.py").write_text(
        "from gateway import hookimpl\nTOLD = []\n\n"
        "@hookimpl\ndef job_event(event):\n    TOLD.append((event.type, event.target, event.lane))\n"
    )
    settings_for(tmp_path, valkey_server.url, namespace, more=EVERY_SECOND)
    file = tmp_path / "gateway.toml"
    file.write_text(f'plugins = ["told_{namespace}"]\n{file.read_text()}')
    environ = {"GATEWAY_REDIS_URL": valkey_server.url, "GATEWAY_GATEWAY_NAMESPACE": namespace}
    async with dispatching(load(environ, tmp_path)):
        told = sys.modules[f"told_{namespace}"].TOLD

        async def accepted() -> bool:
            return ("accepted", "echo", "default") in told

        await until(accepted, timeout_s=60)


async def test_commands_list_show_pause_resume_and_run(valkey_server: Server, namespace: str, tmp_path: Path) -> None:
    more = '[schedules.nightly]\ncron = "30 2 * * *"\ntarget = "echo"\noverlap = "forbid"\npayload = { n = 1 }\n'
    settings = settings_for(tmp_path, valkey_server.url, namespace, more=more)
    shell = Shell(tmp_path, COLUMNS="200", GATEWAY_REDIS_URL=valkey_server.url, GATEWAY_GATEWAY_NAMESPACE=namespace)

    async def command(*arguments: str, code: int = 0) -> str:
        done = await asyncio.to_thread(shell.run, "schedules", *arguments)
        assert done.code == code, done
        return done.stdout if code == 0 else done.stderr

    async with dispatching(settings) as running:
        store = running.client.store

        async def registered() -> bool:
            return any(each.schedule.name == "nightly" for each in await list_schedules(store, limit=10))

        await until(registered, timeout_s=60)
        (listed,) = orjson.loads(await command("list", "--json"))["schedules"]
        assert (listed["name"], listed["source"], listed["paused"]) == ("nightly", "file", False)
        assert "payload" not in listed
        assert "nightly" in await command("list")
        assert orjson.loads(await command("show", "nightly", "--json"))["payload"] == {"n": 1}
        await command("pause", "nightly")
        assert (await find_schedule(store, "nightly")).paused
        assert orjson.loads(await command("resume", "nightly", "--json"))["next_run_at"].endswith("02:30:00.000Z")
        job_id = orjson.loads(await command("run", "nightly", "--json"))["job_id"]
        assert (await running.client.ended(job_id)).status == "succeeded"
        assert "no schedule named 'absent'" in await command("show", "absent", code=1)


async def _slots(store: Store) -> list[int]:
    """The instants, in ms, that the ids of the schedule's jobs are made of."""
    page = await list_jobs(store, None, limit=100)
    return [int(record.job_id.replace("-", "")[:12], 16) for record in page.records]
