"""Retry delays: each policy's formula, its bounds, and its spread."""

from __future__ import annotations

import random
import re
import statistics
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backoff import CALLBACK_RETRY, RetryPolicy, delay_s, patience_s
from gateway.durations import Duration, parse_duration, roughly

DOCS = Path(__file__).parent.parent / "docs"
BASES = st.floats(min_value=0.001, max_value=1000)
ATTEMPTS = st.integers(min_value=1, max_value=1000)


def policy(kind: str, *, base: float = 1.0, cap: float = 600.0) -> RetryPolicy:
    return RetryPolicy(policy=kind, base=Duration(base), cap=Duration(cap))  # type: ignore[arg-type]


@given(base=BASES, factor=st.floats(1, 1000), previous=st.floats(0, 1e6), attempt=ATTEMPTS, seed=st.integers())
def test_decorrelated_delay_lies_between_base_and_three_times_the_previous_one(
    base: float, factor: float, previous: float, attempt: int, seed: int
) -> None:
    cap = base * factor
    delay = delay_s(policy("decorrelated", base=base, cap=cap), attempt, previous, random.Random(seed))
    assert min(base, cap) <= delay <= cap
    assert delay <= max(3 * max(previous, base), base) * (1 + 1e-9)


def test_decorrelated_delays_spread_evenly_when_many_fail_at_once() -> None:
    draw = random.Random(1)
    delays = [delay_s(policy("decorrelated"), 1, 0.0, draw) for _ in range(4000)]
    assert statistics.mean(delays) == pytest.approx(2.0, abs=0.05)  # uniform over 1 s to 3 s
    quarters = [sum(1 for delay in delays if low <= delay < low + 0.5) for low in (1.0, 1.5, 2.0, 2.5)]
    assert min(quarters) > 850


def test_decorrelated_delays_grow_to_the_cap() -> None:
    draw, previous = random.Random(2), 0.0
    delays = [previous := delay_s(policy("decorrelated", cap=30.0), at, previous, draw) for at in range(1, 200)]
    assert max(delays) == 30.0
    assert min(delays) >= 1.0
    assert statistics.mean(delays[50:]) > 10


@given(base=BASES, attempt=ATTEMPTS)
def test_exponential_delay_doubles_up_to_the_cap(base: float, attempt: int) -> None:
    delay = delay_s(policy("exponential", base=base, cap=10 * base), attempt, 0.0, random.Random(0))
    assert delay == (base * 2.0 ** (attempt - 1) if attempt <= 4 else 10 * base)


@given(base=BASES, attempt=ATTEMPTS, seed=st.integers())
def test_exponential_delay_with_jitter_lies_in_the_upper_half_of_the_one_without(
    base: float, attempt: int, seed: int
) -> None:
    delay = delay_s(policy("exponential-jitter", base=base, cap=10 * base), attempt, 0.0, random.Random(seed))
    full = delay_s(policy("exponential", base=base, cap=10 * base), attempt, 0.0, random.Random(seed))
    assert full / 2 <= delay <= full


def test_exponential_delays_with_jitter_spread_when_many_fail_at_once() -> None:
    draw = random.Random(3)
    delays = [delay_s(policy("exponential-jitter"), 4, 0.0, draw) for _ in range(4000)]
    assert statistics.mean(delays) == pytest.approx(6.0, abs=0.1)  # uniform over 4 s to 8 s
    assert statistics.pstdev(delays) == pytest.approx(4 / 12**0.5, abs=0.1)


def test_callbacks_outlast_a_deployment_and_a_night_of_their_receiver() -> None:
    """For each draw: one that is away for ten minutes is called within half an hour; attempts go on for 16."""
    for seed in range(200):
        draw, at_s, times_s = random.Random(seed), 0.0, []
        for attempt in range(1, CALLBACK_RETRY.max_attempts):
            at_s += delay_s(CALLBACK_RETRY, attempt, 0.0, draw)
            times_s.append(at_s)
        assert min(each for each in times_s if each > 600) < 1800
        assert times_s[-1] > 16 * 3600
        assert times_s[3] < 16


def test_documentation_says_how_long_retries_last() -> None:
    section = (DOCS / "configuration.md").read_text().partition("### How long retries last\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `(\{.*\})` \|.* about ([\w.]+) \|$", section, re.MULTILINE)
    assert len(rows) == 5
    for table, told in rows:
        given_ = tomllib.loads(f"retry = {table}")["retry"]
        read = msgspec.convert(given_, RetryPolicy, dec_hook=lambda _, value: parse_duration(value))
        assert roughly(patience_s(read)) == told, table
    assert roughly(patience_s(CALLBACK_RETRY)) == rows[-1][1]


@pytest.mark.parametrize(
    ("given_", "least_s", "most_s"),
    [
        (RetryPolicy(max_attempts=1), 0, 0),
        (RetryPolicy(policy="fixed", max_attempts=4, base=Duration(2.0)), 6, 6),
        (RetryPolicy(policy="exponential", max_attempts=4, base=Duration(2.0)), 14, 14),
        (RetryPolicy(), 15, 17),
        (RetryPolicy(max_attempts=12, cap=Duration(1800.0)), 160, 190),
        (RetryPolicy(policy="exponential-jitter", max_attempts=1000), 1000 * 400, 1000 * 600),
    ],
)
def test_patience_is_how_long_a_job_waits_in_all(given_: RetryPolicy, least_s: float, most_s: float) -> None:
    assert least_s <= patience_s(given_) <= most_s


@given(attempt=ATTEMPTS, previous=st.floats(0, 1e6))
def test_fixed_delay_is_the_base(attempt: int, previous: float) -> None:
    assert delay_s(policy("fixed", base=7.0), attempt, previous, random.Random(0)) == 7.0


@pytest.mark.parametrize(("field", "value"), [("max_attempts", 0), ("max_attempts", 1001), ("cap", 0.5)])
def test_policy_is_refused_when_it_cannot_be_followed(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field.split("_", maxsplit=1)[0]):
        msgspec.structs.replace(RetryPolicy(), **{field: value})


def test_policy_is_read_from_its_configured_form() -> None:
    given_ = {"policy": "exponential", "max_attempts": 8, "base": "1.5s", "cap": "10m"}
    read = msgspec.convert(given_, RetryPolicy, dec_hook=lambda _, value: parse_duration(value))
    assert (read.policy, read.max_attempts, read.base, read.cap) == ("exponential", 8, 1.5, 600.0)
