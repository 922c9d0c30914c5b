"""Real payloads: every example of the npm package `@octokit/webhooks-examples`, sent as a signed delivery of its event.

The package is fetched when the test runs, and is no part of this repository; without npm, or a registry, it is skipped.
One example of each event is sent, and with `OCTOKIT=all` in the environment every one.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import shutil
import subprocess
import tarfile
import uuid
from pathlib import Path

import pytest

from gateway.settings import load
from tests.api.running import running
from tests.servers import Server

pytestmark = pytest.mark.long

PACKAGE = "@octokit/webhooks-examples@7"
EXAMPLES = "package/api.github.com/index.json"
NPM_S = 60
SECRET = b"a secret"
AT_ONCE = 8


def fetch(folder: Path) -> list[tuple[str, bytes]]:
    """The event's name and the payload's bytes, indented as they are written, of every example."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    try:
        done = subprocess.run(
            [npm, "pack", "--silent", PACKAGE], cwd=folder, capture_output=True, text=True, timeout=NPM_S
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not fetch {PACKAGE} within {NPM_S} s")
    if done.returncode != 0:
        pytest.skip(f"npm cannot fetch {PACKAGE}: {done.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        member = archive.extractfile(EXAMPLES)
        assert member is not None
        events = json.loads(member.read())
    return [
        (event["name"], json.dumps(example, indent=2, ensure_ascii=at % 2 == 0).encode())
        for event in events
        for at, example in enumerate(event["examples"][: None if os.environ.get("OCTOKIT") == "all" else 1])
    ]


def configure(folder: Path, events: set[str]) -> None:
    """A target and a route of their own for each event."""
    text = ["[triggers.github]", 'verifier = "github"', f'secrets = ["{SECRET.decode()}"]']
    for event in sorted(events):
        text += ["[[triggers.github.routes]]", f'when = "headers.\\"x-github-event\\" == \'{event}\'"']
        text += [f'target = "{event}"', f"[targets.{event}]", 'executor = "python"', 'callable = "json:dumps"']
    (folder / "gateway.toml").write_text("\n".join(text))


async def test_every_example_is_queued_once_by_its_events_route_with_its_bytes(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    examples = await asyncio.to_thread(fetch, tmp_path)
    assert len(examples) > (200 if os.environ.get("OCTOKIT") == "all" else 30)
    configure(tmp_path, {event for event, _ in examples})
    environ = {"GATEWAY_REDIS_URL": valkey_server.url, "GATEWAY_GATEWAY_NAMESPACE": namespace}
    limit = asyncio.Semaphore(AT_ONCE)
    async with running(load(environ, tmp_path)) as api:

        async def deliver(event: str, body: bytes) -> None:
            mac = hmac.digest(SECRET, body, hashlib.sha256).hex()
            headers = {"X-Hub-Signature-256": f"sha256={mac}", "X-GitHub-Event": event}
            headers["X-GitHub-Delivery"] = str(uuid.uuid4())
            async with limit:
                first = await api.client.post("/hooks/github", content=body, headers=headers)
                again = await api.client.post("/hooks/github", content=body, headers=headers)
            assert first.status_code == 202, first.text
            assert [job["target"] for job in first.json()["jobs"]] == [event]
            assert again.json() == first.json() | {"duplicate": True}
            record = (await api.store.find(first.json()["jobs"][0]["job_id"])).record
            assert (record.payload, record.target) == (body, event)

        await asyncio.gather(*(deliver(event, body) for event, body in examples))
        assert await api.queued() == len(examples)
