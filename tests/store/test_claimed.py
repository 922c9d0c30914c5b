"""The reply of `claim`, read."""

from __future__ import annotations

from gateway.jobs import Claimed
from gateway.store.claimed import parse_claim


def test_claim_tells_the_facts_of_its_body_unless_others_hold_now() -> None:
    bodies = [b"kx|t|default|9||5|10||a|b|7\n{}\n1", b"k|t|default|9||5|10||a|7\n{}\n1"]
    moved = [2, b"2|30|12|kos|t|low|9||6|10||a|8"]
    wake_us, more, jobs = parse_claim([250, 1, 15, b"a,b", moved, 0, *bodies], partition=2, nonce="d.1")
    assert (wake_us, more, len(jobs), jobs.has_suspect) == (250, True, 2, True)
    assert list(jobs) == [
        Claimed("a", 1, 5, "t", "default", "a|b", 0, 10, 5, False, b"{}\n1", "1:d.1", 2),
        Claimed("b", 2, 6, "t", "low", "a", 30, 10, 3, True, b"{}\n1", "2:d.1", 2),
    ]
    assert list(jobs.among({"a"})) == jobs[:1]
    assert not jobs.among({"a"}).has_suspect
    assert list(jobs.among({"b"})) == jobs[1:]
    assert jobs.among({"b"}).has_suspect
    assert not jobs.among(())


def test_nothing_has_waited_for_less_than_no_time_when_the_clock_was_set_back() -> None:
    body = b"k|t|default|9||5|100||a|7\n{}\n1"
    assert parse_claim([250, 0, 15, b"a", [], 0, body], partition=0, nonce="d.1")[2][0].waited_ms == 0


def test_claim_of_nothing_is_no_jobs() -> None:
    wake_us, more, jobs = parse_claim([-1, 0, 15, b"", [], 0], partition=0, nonce="d.1")
    assert (wake_us, more, list(jobs), jobs.has_suspect) == (-1, False, [], False)
