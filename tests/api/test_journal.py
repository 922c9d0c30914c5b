"""Deliveries that wait to be noted: what they may take while Redis is away."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator

import pytest

from gateway.api import journal
from gateway.api.journal import Journal
from gateway.deliveries import Noted, Verdict
from gateway.reception import KeptDeliveries, Reception
from gateway.store import Store
from gateway.store.connection import connect
from gateway.triggers import Trigger
from gateway.verifier import WebhookRequest
from tests.test_triggers import VERIFIER

BODY = 100_000
MANY = 40


@pytest.fixture(autouse=True)
def measured() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


async def waiting_bytes(verdict: Verdict, kept: KeptDeliveries) -> int:
    """What many deliveries take that were noted and cannot be written."""
    store = Store(connect("redis://127.0.0.1:1"), namespace="n", partitions=1, lanes=("default",))
    notes, trigger = Journal(store), Trigger("t", VERIFIER, (), Reception(deliveries=kept))
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(MANY):
        notes.note(trigger, Noted(WebhookRequest("POST", "/hooks/t", (), os.urandom(BODY)), 0, verdict))
    taken = tracemalloc.get_traced_memory()[0] - before
    await notes.aclose()
    await store.aclose()
    return taken


async def test_body_that_will_not_be_kept_is_not_held() -> None:
    assert await waiting_bytes("rejected", KeptDeliveries()) < 5 * BODY
    assert await waiting_bytes("accepted", KeptDeliveries(bodies=False)) < 5 * BODY


async def test_bodies_that_wait_have_a_bound_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "WAITING_BYTES", 10 * BODY)
    assert 10 * BODY <= await waiting_bytes("accepted", KeptDeliveries()) < 15 * BODY


async def test_last_deliveries_are_held_with_their_bodies_when_earlier_ones_have_given_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "WAITING_BYTES", 10 * BODY)
    assert 8 * BODY <= await waiting_bytes("accepted", KeptDeliveries(keep=8)) < 10 * BODY


async def test_each_delivery_is_noted_but_of_a_flood_only_some_up_to_its_end() -> None:
    store = Store(connect("redis://127.0.0.1:1"), namespace="n", partitions=1, lanes=("default",))
    notes, trigger = Journal(store), Trigger("t", VERIFIER, (), Reception(deliveries=KeptDeliveries()))
    wanted = []
    for number in range(1, 10 * journal.EACH_MOST + 1):
        if notes.wants(trigger):
            wanted.append(number)
            notes.note(trigger, Noted(WebhookRequest("POST", "/hooks/t", (), b""), number, "accepted"))
    few = journal.EACH_MOST
    assert wanted[:few] == list(range(1, few + 1))
    assert few + journal.SAMPLES < len(wanted) < few + 6 * journal.SAMPLES
    assert number - wanted[-1] <= number // journal.SAMPLES
    await notes.aclose()
    assert [notes.wants(trigger) for _ in range(3)] == [True] * 3  # what came before is written, or given up
    await store.aclose()
