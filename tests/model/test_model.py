"""The short form of the model: the same random lives every time, and the longest of the breaches it must notice.

`python -m tests.model` runs the long one, `python -m tests.model --mutations` every breach.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from gateway.store.scripts import PRELUDE, lua_directory
from tests.model.mutations import MUTATIONS, Mutation, judge
from tests.model.run import client, run

LIVES = 70
EXAMPLES = 120
STEPS = 40
SEED = 20_260_101

SURE = (
    "unspend: the target's running count stays",
    "restore: a key's lanes are not noted for its target",
    "claim: the lanes in reverse",
    "commit: nobody is woken",
    "ahead: nobody is told to hold it",
)
"""Breaches that a few lives give away; the others take more of them."""


@pytest.fixture(scope="module")
def server() -> Iterator[redis.Redis]:
    with client() as made:
        yield made


def test_engine_keeps_every_rule_whatever_happens(server: redis.Redis) -> None:
    tally = run(server, examples=LIVES, steps=STEPS, seed_from=SEED)
    assert tally.claimed > LIVES, f"lives in which too little happens: {tally}"


@pytest.mark.parametrize("name", SURE)
def test_model_notices_when_a_line_is_broken(server: redis.Redis, name: str) -> None:
    mutation = next(mutation for mutation in MUTATIONS if mutation.name == name)
    assert judge(server, mutation, examples=EXAMPLES, steps=STEPS, seed_from=SEED).noticed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: str(mutation.name))
def test_mutation_still_breaks_one_place(mutation: Mutation) -> None:
    sources = [path.read_text() for path in sorted(lua_directory().glob("*.lua"))]
    assert sum(source.count(mutation.old) for source in sources) == 1, f"not in {PRELUDE} and the scripts once"
