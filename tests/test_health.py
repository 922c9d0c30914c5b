"""What a health check says: of a process that is well, one that is not, and one that is not there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import orjson
import pytest
from typer.testing import CliRunner

from gateway import health
from gateway.cli import app
from gateway.settings import GatewaySettings
from tests.documents import free_port


class Role(BaseHTTPRequestHandler):
    """Answers as a role would; what is asked for stands in `asked`."""

    status, body = 200, b'{"status": "ready"}'
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def well() -> Iterator[ThreadingHTTPServer]:
    yield from serving(200, b'{"status": "ready"}')


@pytest.fixture
def unwell() -> Iterator[ThreadingHTTPServer]:
    yield from serving(503, b'{"status": "unready", "reason": "Redis is away"}')


def serving(status: int, body: bytes) -> Iterator[ThreadingHTTPServer]:
    handler = type("Handler", (Role,), {"status": status, "body": body, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        try:
            yield server
        finally:
            server.shutdown()


def ports(gateway: int, dispatcher: int) -> GatewaySettings:
    return msgspec.structs.replace(GatewaySettings(), port=gateway, dispatcher_port=dispatcher, host="0.0.0.0")


def test_health_is_well_if_whoever_answers_is(well: ThreadingHTTPServer) -> None:
    answers = health.ask(ports(well.server_port, free_port()))
    assert [(each.role, each.status) for each in answers] == [("gateway", 200), ("dispatcher", None)]
    assert answers[1].reason == "connection refused"
    assert health.is_well(answers)
    assert not health.is_well(health.ask(ports(free_port(), free_port())))


def test_health_is_not_well_if_one_of_two_is_not(well: ThreadingHTTPServer, unwell: ThreadingHTTPServer) -> None:
    answers = health.ask(ports(well.server_port, unwell.server_port))
    assert not health.is_well(answers)
    assert str(answers[1]).endswith("/readyz: not well (503), Redis is away")


def test_health_asks_for_life_where_only_that_matters(well: ThreadingHTTPServer) -> None:
    health.ask(ports(well.server_port, free_port()), "gateway", live=True)
    assert well.RequestHandlerClass.asked == ["/livez"]  # type: ignore[attr-defined]


def test_command_and_light_module_say_the_same(well: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", str(well.server_port))
    monkeypatch.setenv("GATEWAY_GATEWAY_DISPATCHER_PORT", str(free_port()))
    for arguments, code in (([], 0), (["gateway", "--live"], 0), (["dispatcher"], 1), (["both"], 2)):
        assert health.main(arguments) == code
        assert CliRunner().invoke(app, ["health", *arguments]).exit_code == code
    said = orjson.loads(CliRunner().invoke(app, ["health", "--json"]).stdout)
    assert said["well"] is True
    assert [each["role"] for each in said["answers"]] == ["gateway", "dispatcher"]


def test_health_of_a_wrong_configuration_is_78(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("GATEWAY_GATEWAY_SLOTS", "many")
    assert health.main([]) == 78
    assert "GATEWAY_GATEWAY_SLOTS" in capsys.readouterr().err
