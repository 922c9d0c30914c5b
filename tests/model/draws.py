"""What Hypothesis draws: jobs, limits, endings, times."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from gateway.jobs import Outcome
from tests.model.transitions import Retention

INDEX = st.integers(0, 63)
VICTIMS = st.sampled_from(("held", "parked", "retrying", "pending", "scheduled", "running", "any"))
"""Whom a cancellation is for, if there is one."""

MOSTLY = st.sampled_from((True, True, True, False))
REPLAY_ATTEMPTS = st.sampled_from((0, 0, 1, 4))

KEYS = ("", "k1", "k2", "|", "k:4|||||5")
"""A key may hold the characters that part the names of a Redis key, and the facts of a job."""

KEYS_OF = {
    "plain": ("", "", "k1", "|"),
    "other": ("",),
    "few": ("",),
    "rate": ("",),
    "quota": ("",),
    "keyed": KEYS,
    "ordered": ("k1", "|", "k:4|||||5"),
    "slow-keys": KEYS,
    "late": ("", "k1", "k2"),
    "paid": ("", "k1"),
}
"""Every target, and the keys of its jobs."""

FOCUS = st.lists(
    st.sampled_from(("ordered", "keyed", "slow-keys", "slow-keys", "paid", *KEYS_OF)),
    min_size=1,
    max_size=4,
    unique=True,
)
"""The targets of one life: few, so that much happens to each."""

Fields = dict[str, int]


class Order(NamedTuple):
    """A job to submit, before it has an id; `target` and `key` count those of this life, `idempotency` 0 is none."""

    target: int
    key: int
    lane: str
    priority: int
    delay_ms: int
    expires_ms: int
    max_attempts: int
    events: str
    idempotency: int
    fingerprint: str


ORDERS = st.builds(
    Order,
    st.integers(0, 11),
    st.integers(0, 11),
    st.sampled_from(("default", "default", "critical", "low", "old")),
    st.sampled_from((0, 0, 0, 10, -10)),
    st.sampled_from((0, 0, 0, 0, 0, 700, 2500)),
    st.sampled_from((0, 0, 0, 0, 400, 2500)),
    st.sampled_from((3, 1, 5)),
    st.sampled_from(("", "", "sdc", "d", "c", "rd")),
    st.sampled_from((0, 0, 0, 0, 1, 2, 3)),
    st.sampled_from(("f", "g", "~")),
)
HOT = st.tuples(ORDERS, st.lists(st.integers(0, 11), min_size=3, max_size=16))
"""Many jobs that differ in their keys only."""


class Ending(NamedTuple):
    """How an attempt ends; `bogus`: with a token that is not its own."""

    which: int
    outcome: Outcome
    delay_ms: int
    reason: str
    bogus: bool


_OUTCOMES: tuple[Outcome, ...] = (
    "retry",
    "succeeded",
    "retry",
    "dead",
    "released",
    "retry",
    "succeeded",
    "cancelled",
    "parked",
)
ENDINGS = st.builds(
    Ending,
    INDEX,
    st.sampled_from(_OUTCOMES),
    st.sampled_from((300, 0, 1500, 5000)),
    st.sampled_from(("fatal", "no_target", "strange", "exhausted", "gone", "fatal")),
    st.sampled_from((False,) * 5 + (True,)),
)

DISPATCHERS = st.sampled_from(("d1", "d2", "d3"))
CLAIM_SIZES = st.sampled_from((20, 1, 2, 5, 20))
PARKED_MS = st.sampled_from((400, 2_000, 20_000))
"""How long work may go on elsewhere."""

ASIDES = st.sampled_from(("leave", "look", "forget", "upkeep", "upkeep", "extend", "extend", "pause"))
LEASES_MS = st.sampled_from((500, 5_000))
AHEAD_US = st.sampled_from((0, 0, 7_000))
BEFORE_US = st.lists(st.sampled_from((3_000, 137, 1, 900, 9_000, 12_000)), min_size=1, max_size=3)
"""How long before something is due a dispatcher asks ahead."""

APART_US = st.sampled_from((0, 137, 700))

REAP_MOST = st.sampled_from((1000, 1000, 1))
MAX_STALLS = st.sampled_from((2, 1, 0))
WAITS_US = st.sampled_from((1_000, 137, 50_000, 100_000, 500_000, 1_000_000, 3_000_000, 11_000_000))

_INTERVALS = st.sampled_from((0, 100_000, 1_000_000))
_WINDOW = st.sampled_from((1_000_000, 2_500_000))
_UP_TO_4 = st.integers(1, 4)
_LIMITS: dict[str, SearchStrategy[Fields]] = {
    "few": st.fixed_dictionaries({"concurrency": st.integers(1, 3)}),
    "rate": st.fixed_dictionaries({"interval": st.sampled_from((100_000, 1_000_000)), "burst": _UP_TO_4}),
    "quota": st.fixed_dictionaries({"quota": _UP_TO_4, "window": _WINDOW}),
    "keyed": st.fixed_dictionaries({"concurrency": st.sampled_from((0, 2, 3)), "key_concurrency": st.integers(0, 2)}),
    "ordered": st.fixed_dictionaries({"ordered": st.just(1), "concurrency": st.sampled_from((0, 2))}),
    "slow-keys": st.fixed_dictionaries(
        {
            "key_interval": st.sampled_from((2_000_000, 0, 100_000)),
            "key_burst": st.sampled_from((2, 1, 3)),
            "key_quota": st.sampled_from((0, 0, 2)),
            "key_window": _WINDOW,
            "interval": st.sampled_from((0, 300_000)),
            "burst": st.just(2),
            "concurrency": st.sampled_from((0, 4)),
        }
    ),
    "paid": st.fixed_dictionaries(
        {
            "breaker": st.sampled_from((2, 3, 1)),
            "breaker_ratio": st.sampled_from((50, 100, 1)),
            "breaker_window": st.sampled_from((20_000_000, 2_000_000)),
            "breaker_pause": st.sampled_from((700_000, 100_000)),
            "breaker_cap": st.sampled_from((2_000_000, 700_000)),
            "concurrency": st.sampled_from((0, 3)),
            "interval": st.sampled_from((0, 0, 300_000)),
            "burst": st.just(2),
        }
    ),
    "gateway.callback": st.sampled_from(({}, {"concurrency": 2})),
}
LIMITS = st.fixed_dictionaries(_LIMITS)
"""What each target with flows begins with; those not named have none."""

_CHANGES: dict[str, SearchStrategy[Fields]] = {
    "paused": st.fixed_dictionaries({"paused": st.sampled_from((0, 0, 1))}),
    "concurrency": st.fixed_dictionaries({"concurrency": st.sampled_from((0, 1, 2, 5))}),
    "rate": st.fixed_dictionaries({"interval": _INTERVALS, "burst": _UP_TO_4}),
    "quota": st.fixed_dictionaries({"quota": st.integers(0, 4), "window": _WINDOW}),
    "key_concurrency": st.fixed_dictionaries({"key_concurrency": st.integers(0, 2)}),
    "key_rate": st.fixed_dictionaries({"key_interval": _INTERVALS, "key_burst": st.integers(1, 2)}),
    "key_quota": st.fixed_dictionaries({"key_quota": st.integers(0, 2), "key_window": _WINDOW}),
    "ordered": st.fixed_dictionaries({"ordered": st.integers(0, 1)}),
    "minimum": st.fixed_dictionaries({"breaker": st.integers(0, 3)}),
    "breaker": st.fixed_dictionaries({"open_until": st.sampled_from((0, 700_000, 30_000_000))}),
}
CHANGES = st.sampled_from(tuple(_CHANGES)).flatmap(lambda change: _CHANGES[change])

RETENTIONS = st.builds(
    Retention,
    st.sampled_from((86_400_000, 2_000)),
    st.sampled_from((100_000, 3, 0)),
    st.sampled_from((86_400_000, 2_000)),
    st.sampled_from((500, 2)),
)

DEAD_MOST = st.sampled_from((0, 0, 0, 2, 1))
LANE_CAPS = st.sampled_from(({}, {}, {}, {"low": 3}, {"default": 8, "critical": 2}))
POLICIES: SearchStrategy[dict[str, tuple[int, int]]] = st.sampled_from(
    ({}, {}, {}, {"critical": (7, 0), "default": (2, 0), "low": (1, 0)}, {"low": (0, 1_000), "default": (0, 3_000)})
)
"""Most claims take the lanes in strict order; some by weights, some with a limit to how long a lane waits."""
