"""What HubSpot's deliveries are known by: it signs no id, and counts attempts in the body."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

import pytest

from gateway import Rejected, WebhookRequest
from tests.plugins.presets import make

NOW = 1_700_000_000.0
URL = "https://hooks.example/hooks/x"


def delivery_id(version: Literal["v3", "v2", "v1"], *, attempt: int = 0, event: int = 1, at: float = NOW) -> str | None:
    hubspot = make("hubspot", "s", versions=[version])
    body = json.dumps([{"eventId": event, "attemptNumber": attempt}]).encode()
    request = hubspot.sign(WebhookRequest("POST", URL, (), body), at)
    assert request is not None
    return hubspot.verify(request, at).id


@pytest.mark.parametrize("version", ["v3", "v2", "v1"])
def test_attempt_that_is_counted_up_is_a_repeat(version: Literal["v3", "v2", "v1"]) -> None:
    first = delivery_id(version)
    assert first is not None
    assert delivery_id(version, attempt=1, at=NOW + 60) == first
    assert delivery_id(version, event=2) != first


@pytest.mark.parametrize("version", ["v2", "v1"])
def test_older_signature_is_judged_as_what_the_request_names(version: Literal["v2", "v1"]) -> None:
    both, only = make("hubspot", "s", versions=["v3", "v2", "v1"]), make("hubspot", "s", versions=[version])
    request = only.sign(WebhookRequest("POST", URL, (), b"[{}]"), NOW)
    assert request is not None
    both.verify(request, NOW)
    for named in ("v1", "v2", "v3"):
        said = replace(request, headers=(*request.headers, ("x-hubspot-signature-version", named)))
        for hubspot in (both, only):
            if named == version:
                hubspot.verify(said, NOW)
                continue
            with pytest.raises(Rejected):
                hubspot.verify(said, NOW)


@pytest.mark.parametrize("version", ["v3", "v2"])
def test_requests_of_cards_have_no_body_and_are_no_repeats(version: Literal["v3", "v2"]) -> None:
    hubspot = make("hubspot", "s", versions=[version])
    found = set()
    for query in ("a=1", "a=2"):
        request = hubspot.sign(WebhookRequest("GET", f"{URL}?{query}", (), b""), NOW)
        assert request is not None
        found.add(hubspot.verify(request, NOW).id)
    assert found == {None} or len(found) == 2
