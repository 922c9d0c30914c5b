"""The description is what the gateway does: a short run of what `python -m tests.openapi` does at length."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gateway.api.operations import OPERATIONS
from tests.openapi.fuzz import HERE, fuzz
from tests.openapi.installation import described


@pytest.mark.long
def test_every_answer_is_as_described(tmp_path: Path) -> None:
    with described(tmp_path) as gateway:
        outcome = fuzz(gateway, requests=1, examples=3, seed=20_261, phases="fuzzing,stateful")
    assert outcome.clean, outcome.report
    assert outcome.requests > 2 * len(OPERATIONS)


def test_exceptions_are_for_operations_that_there_are() -> None:
    config = tomllib.loads((HERE / "schemathesis.toml").read_text())
    known = {operation.path for operation in OPERATIONS}
    for each in config["operations"]:
        paths = each["include-path"]
        assert {paths} <= known if isinstance(paths, str) else set(paths) <= known
    switched_off = [each for each in config["operations"] if each.get("enabled") is False]
    assert [each["include-path"] for each in switched_off] == ["/events"]
