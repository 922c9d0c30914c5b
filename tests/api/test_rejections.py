"""Rejected deliveries in the log: told of, with the trigger and the reason, and not once for each of a flood."""

from __future__ import annotations

from structlog.testing import capture_logs

from gateway.api.rejections import Rejections


def test_flood_of_rejections_is_told_of_once_a_second() -> None:
    rejections = Rejections()
    with capture_logs() as lines:
        for at in range(30):
            rejections.tell("github", "mismatch", now_s=100 + at / 10)
        rejections.tell("stripe", "no_signature", now_s=100.05)
    told = [(line["trigger"], line["reason"], line["not_shown"]) for line in lines]
    assert told == [
        ("github", "mismatch", 0),
        ("github", "mismatch", 9),
        ("github", "mismatch", 9),
        ("stripe", "no_signature", 0),
    ]
