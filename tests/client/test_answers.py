"""The client's types against what the API promises: nothing left out, nothing of another kind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.api import models
from gateway.client import answers
from gateway.client.answers import Answer

OURS = {
    name: kind
    for name, kind in vars(answers).items()
    if isinstance(kind, type) and issubclass(kind, Answer) and kind is not Answer
}
BESIDE = {"Event": {"facts"}}
"""What the client gathers under a name of its own."""

OF_OTHERS = {"Alive", "RouteSettings", "TriggerBody"}
"""Answers to load balancers, and what is sent."""


@pytest.mark.parametrize("name", OURS)
def test_type_has_every_field_that_the_api_gives(name: str) -> None:
    promised: Any = getattr(models, name)
    theirs = {field.name: field.required for field in msgspec.structs.fields(promised)}
    ours = {field.name: field.required for field in msgspec.structs.fields(OURS[name])}
    assert set(ours) - BESIDE.get(name, set()) == set(theirs)
    assert {field for field, required in ours.items() if required} <= {name for name, must in theirs.items() if must}


def test_every_answer_of_the_api_has_a_type() -> None:
    promised = {
        name for name, kind in vars(models).items() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }
    assert {name for name in promised if not name.startswith("_")} - OF_OTHERS == set(OURS)
