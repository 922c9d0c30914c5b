"""What callers may write: every field of the API, so that a type checker lets it pass."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.backoff import RetryOverride
from gateway.client.bodies import CallbackOptions, JobBody, RetryOptions, ScheduleBody
from gateway.jobs import Callback
from gateway.schedules import ScheduleBody as ScheduleOfApi
from gateway.settings import field_names
from gateway.submission.body import SubmitBody

OLDER_NAMES = {"type", "run_after", "scheduled_at", "max_retries"}
INSTEAD_OF_A_TARGET = {"url"}


@pytest.mark.parametrize(
    ("written", "taken", "left_out"),
    [
        (JobBody, SubmitBody, OLDER_NAMES | INSTEAD_OF_A_TARGET),
        (CallbackOptions, Callback, set()),
        (RetryOptions, RetryOverride, set()),
        (ScheduleBody, ScheduleOfApi, set()),
    ],
)
def test_every_field_of_the_api_can_be_written(written: Any, taken: Any, left_out: set[str]) -> None:
    assert set(written.__annotations__) | left_out == set(field_names(taken))
