"""Job ids and partitions: UUIDv7, unique, and always leading back to where the job lies."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import NotFound
from gateway.keys import (
    MAX_PARTITIONS,
    PRIORITY_SPAN,
    JobIds,
    Keyspace,
    derived_id,
    format_id,
    hashed_partition,
    idempotency_hash,
    partition_of,
)

TIMES = st.integers(0, 2**48 - 1)
NOISE = st.integers(0, 2**66 - 1)
PARTITIONS = st.integers(0, MAX_PARTITIONS - 1)


@given(now_ms=TIMES, noise=NOISE, partition=PARTITIONS)
def test_id_is_a_uuid_of_version_7_that_holds_its_time_and_partition(now_ms: int, noise: int, partition: int) -> None:
    text = format_id(now_ms, noise, partition)
    parsed = uuid.UUID(text)
    assert str(parsed) == text
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == now_ms
    assert partition_of(text, MAX_PARTITIONS) == partition


@given(one=NOISE, other=NOISE)
def test_ids_differ_when_their_noise_does(one: int, other: int) -> None:
    assert (format_id(1, one, 0) == format_id(1, other, 0)) == (one == other)


def test_fresh_ids_never_repeat_and_use_the_whole_noise() -> None:
    ids = JobIds()
    made = [ids.new(1, 0) for _ in range(20_000)]
    assert len(set(made)) == len(made)
    for at in (15, 20, 24, 30, 33):
        assert len({text[at] for text in made}) == 16, f"character {at} is not random"
    assert {text[19] for text in made} == set("89ab")


def test_ids_of_one_millisecond_after_another_sort_by_time() -> None:
    ids = JobIds()
    made = [ids.new(1_700_000_000_000 + at, at % 7) for at in range(100)]
    assert made == sorted(made)


def test_derived_id_is_the_same_for_the_same_cause_only() -> None:
    assert derived_id("a", 5, 3) == derived_id("a", 5, 3)
    assert len({derived_id("a", 5, 3), derived_id("b", 5, 3), derived_id("a", 6, 3), derived_id("a", 5, 4)}) == 4
    assert partition_of(derived_id("a", 5, 3), 4) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "01A22780-5329-7D03-8458-4C0287D2A700",
        "01a22780-5329-4d03-8458-4c0287d2a700",
        "01a22780-5329-7d03-c458-4c0287d2a700",
        "01a22780-5329-7d03-8458-4c0287d2a700\n",
        "01a22780-5329-7d03-8458-4c0287d2a7ff",
        "01a2278053297d0384584c0287d2a700",
    ],
)
def test_text_that_is_no_id_of_ours_is_not_found(text: str) -> None:
    with pytest.raises(NotFound):
        partition_of(text, 4)


@given(text=st.text(), partitions=st.integers(1, MAX_PARTITIONS))
def test_hashed_partition_is_stable_and_in_range(text: str, partitions: int) -> None:
    partition = hashed_partition(text, partitions)
    assert 0 <= partition < partitions
    assert partition == hashed_partition(text, partitions)


def test_hashed_partitions_are_spread_evenly() -> None:
    counts = Counter(hashed_partition(f"key {at}", 16) for at in range(16_000))
    assert len(counts) == 16
    assert min(counts.values()) > 800


def test_idempotency_keys_are_apart_when_any_part_differs() -> None:
    parts = [("a", "b", "c"), ("ab", "", "c"), ("a", "", "bc"), ("a", "bc", ""), ("b", "a", "c")]
    assert len({idempotency_hash(*each) for each in parts}) == len(parts)


def test_prefix_tags_the_slot_of_its_partition() -> None:
    assert Keyspace("shop", 3).prefix == "gw:{shop:3}:"


@given(priority=st.integers(-100, 100), seq=st.integers(0, PRIORITY_SPAN - 1))
def test_rank_is_exact_as_a_score(priority: int, seq: int) -> None:
    rank = (100 - priority) * PRIORITY_SPAN + seq
    assert int(float(rank)) == rank < 2**53
