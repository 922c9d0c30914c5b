"""What schemathesis must be told of us: values for the formats of the description, and what DELETE leaves behind."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import use_after_free

KEPT = ("/jobs/{job_id}", "/jobs/{job_id}/status", "/jobs/{job_id}/events", "/replays/{replay_id}")
"""DELETE cancels a job and stops a replay; what became of them can be read afterwards."""

# a cursor belongs to the query that gave it out, and an event's id to its installation: what can be made up is none
schemathesis.openapi.format("cursor", st.just(""))
schemathesis.openapi.format("event-id", st.just(""))

schemathesis.openapi.format("target-name", st.sampled_from(("work", "echo", "die")))
schemathesis.openapi.format("lane-name", st.sampled_from(("critical", "default", "low")))
schemathesis.openapi.format("cron", st.sampled_from(("@daily", "30 2 * * *", "0 0 29 2 *", "*/5 * * * * *")))
schemathesis.openapi.format("time-zone", st.sampled_from(("UTC", "Europe/Berlin", "America/New_York")))


@schemathesis.check
def gone_after_delete(
    ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> bool | None:
    """schemathesis's `use_after_free`, but for what a DELETE keeps."""
    return None if case.operation.path in KEPT else use_after_free(ctx, response, case)
