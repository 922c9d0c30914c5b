"""The examples of docs/client.md as a reader would run them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import django
import httpx
import pytest
from django.conf import settings as django_settings
from django.core.handlers.asgi import ASGIHandler
from django.urls import path

from gateway import signing
from gateway.client import AsyncGateway, Gateway
from tests.documents import README, ROOT, files_of, installed
from tests.test_docs import SECRET, callback_body

PAGE = ROOT / "docs" / "client.md"


def views(file: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": file}
    exec(compile(files_of(PAGE)[file], file, "exec", dont_inherit=True), namespace)
    return namespace


def fastapi_app() -> Any:
    return views("receive_fastapi.py")["app"]


def django_app() -> Any:
    if not django_settings.configured:
        django_settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="x", LOGGING_CONFIG=None)
        django.setup()
    django_settings.ROOT_URLCONF = (path("callbacks", views("receive_django.py")["callbacks"]),)
    return ASGIHandler()


@pytest.mark.parametrize(("make_app", "thanks"), [(fastapi_app, 200), (django_app, 204)])
async def test_receiver_takes_a_genuine_callback_and_nothing_else(
    make_app: Any, thanks: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CALLBACK_SECRET", SECRET)
    body, at_s = callback_body(), int(time.time())
    headers = {
        "webhook-id": "job-1",
        "webhook-timestamp": str(at_s),
        "webhook-signature": signing.sign("job-1", at_s, body, secrets=[SECRET]),
        "content-type": "application/json",
    }
    transport = httpx.ASGITransport(make_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as http:
        assert (await http.post("/callbacks", content=body, headers=headers)).status_code == thanks
        assert (await http.post("/callbacks", content=body + b" ", headers=headers)).status_code == 401
        assert (await http.post("/callbacks", content=body)).status_code == 401
    assert capsys.readouterr().out.splitlines() == ["job.succeeded 01a2278e-ce24-786a-bccd-85425e6ddd00"]


def test_table_names_methods_that_there_are() -> None:
    text = PAGE.read_text()
    table = text[text.index("## Methods") : text.index("Options of a job")]
    for client in (Gateway(), AsyncGateway()):
        for name in ("submit", "submit_many", "run", "wait", "get", "status", "events", "cancel", "retry", "jobs"):
            assert f"`{name}(" in table
            assert callable(getattr(client, name))
        for part in ("dlq", "targets", "triggers", "schedules", "lanes", "apikeys"):
            for name in dir(getattr(client, part)):
                assert name.startswith("_") or f".{name}(" in table, f"{part}.{name}"


async def test_examples_run(tmp_path: Path) -> None:
    """In processes of their own, against `gateway up` with the README's targets."""
    files = files_of(README, PAGE)
    with installed(tmp_path, files) as here:
        for name in ("submit.py", "submit_async.py"):
            (tmp_path / name).write_text(files[name].replace("http://127.0.0.1:8080", str(here.api.base_url)))
            done = await asyncio.to_thread(
                subprocess.run, [sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=60
            )
            assert done.stdout.startswith("succeeded "), done.stderr
