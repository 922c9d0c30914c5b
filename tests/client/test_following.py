"""A stream of events that breaks off in the middle of one: nothing is lost, and nothing of it stays."""

from __future__ import annotations

import pytest

from gateway.client.following import EventReader, LiveEvent

FIRST = ["id: 1-1", 'data: {"type":"started","job_id":"a"}', ""]
SECOND = ["id: 2-1", 'data: {"type":"succeeded","job_id":"a"}', ""]


def read(reader: EventReader, lines: list[str]) -> list[LiveEvent]:
    return [event for line in lines for event in reader.read(line)]


@pytest.mark.parametrize("cut", [["id: 2-1"], SECOND[:2], ["id: 2-1", 'data: {"type":"succ'], ["event: gap"]])
def test_event_that_was_cut_off_is_asked_for_again_and_read_anew(cut: list[str]) -> None:
    reader = EventReader()
    assert "Last-Event-ID" not in reader.begin()
    assert [event.type for event in read(reader, [*FIRST, *cut])] == ["started"]
    assert reader.begin()["Last-Event-ID"] == "1-1"
    assert [event.type for event in read(reader, SECOND)] == ["succeeded"]
    assert reader.begin()["Last-Event-ID"] == "2-1"


def test_position_stays_where_a_message_has_none() -> None:
    reader = EventReader()
    read(reader, [*FIRST, ": still here", "", 'data: {"type":"dead"}', ""])
    assert reader.begin()["Last-Event-ID"] == "1-1"
