"""Every vector over HTTP, each sent to a trigger of its own at the time that it was made for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.settings import load
from tests.api.running import running
from tests.api.test_hooks import samples
from tests.plugins.presets import VERIFIERS, Vector, vectors
from tests.servers import Server


def sendable(vector: Vector) -> bool:
    """Whether HTTP carries it: white space around a value is none of it."""
    return all(value == value.strip() for _, value in vector.request.headers)


def trigger(name: str, vector: Vector) -> list[str]:
    config: dict[str, Any] = {"secrets": [vector.secret]} if vector.verifier != "none" else {}
    if "url" in VERIFIERS[vector.verifier].Config.__struct_fields__:
        config["url"] = vector.request.url.partition("?")[0]
    lines = [f"[triggers.{name}]", f'verifier = "{vector.verifier}"', 'content = "json"']
    lines += [f"{key} = {json.dumps(value)}" for key, value in (config | vector.config).items()]
    return [*lines, f"[[triggers.{name}.routes]]", 'target = "echo"']


async def test_every_vector_gets_its_verdict_over_http(valkey_server: Server, namespace: str, tmp_path: Path) -> None:
    sent = {f"v{at}": vector for at, vector in enumerate(vectors()) if sendable(vector)}
    lines = ["[targets.echo]", 'executor = "python"', 'callable = "json:dumps"']
    for name, vector in sent.items():
        lines += trigger(name, vector)
    (tmp_path / "gateway.toml").write_text("\n".join(lines))
    environ = {"GATEWAY_REDIS_URL": valkey_server.url, "GATEWAY_GATEWAY_NAMESPACE": namespace}
    now = [0.0]
    async with running(load(environ, tmp_path), clock=lambda: now[0]) as api:
        verdicts = {}
        for name, vector in sent.items():
            now[0] = vector.now
            headers = [(key.encode(), value.encode("latin-1")) for key, value in vector.request.headers]
            target = f"/hooks/{name}?{urlsplit(vector.request.url).query}".encode()
            answer = await api.client.request(
                vector.request.method, "/", headers=headers, content=vector.request.body, extensions={"target": target}
            )
            assert answer.is_success or answer.status_code == 401, answer.text
            verdicts[vector.name] = answer.is_success
        assert verdicts == {each.name: each.expect for each in sent.values()}
        counted = await samples(api, "gateway_deliveries_total")
    assert sum(counted.values()) == len(sent) > 150
