"""Triggers and their deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.client.answers import DeliveryAnswer, DeliveryShown, DeliverySummary, Triggers, TriggerShown
from gateway.client.bodies import encode
from gateway.client.call import Call, Listing, answer, nothing, path


def list_triggers() -> Call[Triggers]:
    """Every trigger, by name, without secrets."""
    return Call(method="GET", path="/triggers", read=answer(Triggers))


def get_trigger(name: str) -> Call[TriggerShown]:
    """One trigger, without its secrets."""
    return Call(method="GET", path=path("triggers", name), read=answer(TriggerShown))


def put_trigger(name: str, table: Mapping[str, Any]) -> Call[TriggerShown]:
    """Registers a trigger, or replaces it; `table` as in `gateway.toml`."""
    return Call(method="PUT", path=path("triggers", name), read=answer(TriggerShown), content=encode(table))


def delete_trigger(name: str) -> Call[None]:
    """Takes a registered trigger away."""
    return Call(method="DELETE", path=path("triggers", name), read=nothing, repeat="unsent")


def list_deliveries(name: str, page_size: int, verdict: str | None = None) -> Listing[DeliverySummary]:
    """A trigger's last deliveries, the newest first."""
    query = {"limit": str(page_size)} | ({"verdict": verdict} if verdict else {})
    where = path("triggers", name, "deliveries")
    first = Call(method="GET", path=where, read=answer(dict[str, Any]), query=query)
    return Listing(first, "deliveries", DeliverySummary)


def get_delivery(name: str, delivery_id: str) -> Call[DeliveryShown]:
    """One delivery with headers and body, as far as they were kept."""
    return Call(method="GET", path=path("triggers", name, "deliveries", delivery_id), read=answer(DeliveryShown))


def replay_delivery(name: str, delivery_id: str) -> Call[DeliveryAnswer]:
    """Sends a delivery through the routes again."""
    where = path("triggers", name, "deliveries", delivery_id, "replay")
    return Call(method="POST", path=where, read=answer(DeliveryAnswer), repeat="unsent")
