"""Every vector there is, with the verifier that its source means and the request as a server hands it over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway import Settings, Verifier, WebhookRequest
from gateway.registry import Registry
from gateway.settings import decode

DATA = Path(__file__).parent.parent / "data"
URL = "https://hooks.example/hooks/x"

VERIFIERS: Mapping[str, type[Verifier[Any]]] = Registry.build(Settings()).verifiers

SOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "standard-webhooks": ("standard", {}),
    "standard-webhooks-v1a": ("standard", {}),
    "github-sha1": ("github", {"allow_sha1": True}),
    "hubspot-v3": ("hubspot", {}),
    "hubspot-v2": ("hubspot", {"versions": ["v2"]}),
}
"""What the given vectors call their sources, where it is not the verifier's name."""


@dataclass(frozen=True, slots=True)
class Vector:
    """A delivery, and the verdict that it must get at `now`."""

    verifier: str
    config: dict[str, Any]
    secret: str
    request: WebhookRequest
    now: float
    expect: bool
    name: str

    def make(self, *secrets: str) -> Verifier[Any]:
        """The verifier, with these secrets or the vector's own."""
        return make(self.verifier, *(secrets or (self.secret,)), **self.config)


def make(name: str, *secrets: str, **config: Any) -> Verifier[Any]:
    """A verifier as a trigger's table makes it."""
    kind = VERIFIERS[name]
    table = dict(config) if name == "none" else {"secrets": list(secrets), **config}
    return kind(decode(table, kind.Config, "trigger"))


def vectors() -> list[Vector]:
    """The given vectors, and ours."""
    given = [_given(at, each) for at, each in enumerate(_read("webhook-vectors.json"))]
    return [*given, *(_own(at, each) for at, each in enumerate(_read("preset-vectors.json")))]


def positive() -> dict[str, Vector]:
    """One vector of each verifier that passes."""
    return {vector.verifier: vector for vector in reversed(vectors()) if vector.expect}


def _read(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return found


def _given(at: int, vector: dict[str, Any]) -> Vector:
    verifier, config = SOURCES.get(vector["source"], (vector["source"], {}))
    return _vector(vector, verifier, config, f"{at}-{vector['source']}-{vector['note']}")


def _own(at: int, vector: dict[str, Any]) -> Vector:
    return _vector(vector, vector["verifier"], vector["config"], f"own-{at}-{vector['verifier']}-{vector['note']}")


def _vector(vector: dict[str, Any], verifier: str, config: dict[str, Any], name: str) -> Vector:
    headers = tuple((key.lower(), value.encode().decode("latin-1")) for key, value in vector["headers"].items())
    method, url = vector.get("method") or "POST", vector.get("url") or URL
    request = WebhookRequest(method, url, headers, vector["body"].encode())
    now = float(vector["now"] or 1_700_000_000)
    return Vector(verifier, config, vector["secret"], request, now, vector["expect"], name)
