"""What an author of verifiers gets wrong: the sender gets an answer, the log a name, and nobody else suffers."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from gateway import HandshakeResponse
from gateway.settings import load
from tests.api.running import Running, running
from tests.api.triggered import noted
from tests.servers import Server

PLUGIN = """
import sys

import msgspec
from gateway import Delivery, HandshakeResponse, Rejected, Secret, Verifier, hookimpl

HANDSHAKES = {
    "status": lambda: HandshakeResponse(99),
    "body": lambda: HandshakeResponse(200, "text"),
    "header": lambda: HandshakeResponse(200, b"", (("x-a", "b\\r\\nc: d"),)),
    "kind": lambda: "text",
}
DELIVERIES = {
    "raises": lambda: 1 / 0,
    "leaves": lambda: sys.exit("enough"),
    "number": lambda: Delivery("1", 5),
    "surrogate": lambda: Delivery("2", "\\ud800"),
    "long": lambda: Delivery("3", "e" * 100_000),
}


class Slip(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    how: str
    secret: Secret = Secret("unset")


class Slipping(Verifier[Slip]):
    name = "slipping"
    Config = Slip

    def handshake(self, request):
        return HANDSHAKES.get(self.config.how, lambda: None)()

    def verify(self, request, now):
        if self.config.how == "reason":
            raise Rejected(5)
        if self.config.how == "tells":
            own = self.config.secret.reveal()
            try:
                raise KeyError(own)
            except KeyError as error:
                raise ValueError(f"{own} does not sign {dict(request.headers)['x-token']}") from error
        return DELIVERIES[self.config.how]()


@hookimpl
def register_verifiers():
    return [Slipping]
"""
HOWS = ("status", "body", "header", "kind", "raises", "leaves", "number", "surrogate", "long", "reason")


@pytest.fixture
async def api(
    valkey_server: Server, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Running]:
    (tmp_path / "slipping_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "slipping_plugin", raising=False)
    text = ['plugins = ["slipping_plugin"]\n[targets.echo]\nexecutor = "python"\ncallable = "json:dumps"']
    text += [f'[triggers.{how}]\nverifier = "slipping"\nhow = "{how}"\nroutes = [{{target = "echo"}}]' for how in HOWS]
    text += ['[triggers.tells]\nverifier = "slipping"\nhow = "tells"\nsecret = "a quoted secret"']
    text += ['routes = [{target = "echo"}]']
    (tmp_path / "gateway.toml").write_text("\n".join(text))
    environ = {"GATEWAY_REDIS_URL": valkey_server.url, "GATEWAY_GATEWAY_NAMESPACE": namespace}
    async with running(load(environ, tmp_path)) as gateway:
        yield gateway


@pytest.mark.parametrize("how", ["status", "body", "header", "kind", "raises", "leaves"])
async def test_verifier_that_fails_is_a_500_whose_log_names_it(api: Running, how: str) -> None:
    with structlog.testing.capture_logs() as logs:
        answer = await api.client.post(f"/hooks/{how}", content=b"{}")
    assert answer.status_code == 500
    (line,) = [each for each in logs if each["event"] == "a verifier failed"]
    assert (line["verifier"], line["trigger"]) == ("slipping", how)
    assert "Traceback" in line["exception"]
    assert await api.queued() == 0


async def test_log_of_a_verifier_that_fails_shows_no_secret(api: Running) -> None:
    with structlog.testing.capture_logs() as logs:
        answer = await api.client.post("/hooks/tells", content=b"{}", headers={"x-token": "of-the-sender"})
    assert answer.status_code == 500
    (line,) = [each for each in logs if each["event"] == "a verifier failed"]
    assert "ValueError: *** does not sign ***" in line["exception"]
    assert "KeyError" in line["exception"]
    assert "quoted" not in f"{logs}{answer.text}"
    assert "of-the-sender" not in f"{logs}{answer.text}"


async def test_secret_is_counted_whatever_its_key_is_called(api: Running) -> None:
    shown = (await api.client.get("/triggers/tells")).json()
    assert (shown["secrets"], shown["config"]) == (1, {"how": "tells"})
    assert "quoted" not in f"{shown}"


@pytest.mark.parametrize(("how", "shown"), [("number", "5"), ("surrogate", "?"), ("long", "e" * 1024)])
async def test_odd_type_of_an_event_is_shown_as_text(api: Running, how: str, shown: str) -> None:
    assert (await api.client.post(f"/hooks/{how}", content=b"{}")).status_code == 202
    listed = await noted(api, how, 1)
    assert [each["event"] for each in listed] == [shown]
    entry = (await api.client.get(f"/triggers/{how}/deliveries/{listed[0]['id']}")).json()
    assert entry["event"] == shown


async def test_odd_reason_of_a_rejection_is_shown_as_text(api: Running) -> None:
    assert (await api.client.post("/hooks/reason", content=b"{}")).status_code == 401
    assert [each["reason"] for each in await noted(api, "reason", 1)] == ["5"]


@pytest.mark.parametrize("name", ["", "a b", "Content-Length", "transfer-encoding"])
def test_handshake_is_not_answered_with_a_header_that_is_none_or_the_servers(name: str) -> None:
    with pytest.raises(ValueError, match="a handshake cannot be answered with the header"):
        HandshakeResponse(200, b"", ((name, "x"),))
