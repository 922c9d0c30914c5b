"""What schemathesis must be told of us: values for the formats of the description, and what DELETE leaves behind.

The description leaves open what is an executor's or a verifier's own; without a body that is one of these, all that is
behind such a target or trigger would only ever answer 404.
"""

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

NAME = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}
WHOLE: dict[str, dict[str, Any]] = {
    "TargetBody": {"executor": {"const": "http"}, "url": {"enum": ["http://127.0.0.1:9/a", "http://127.0.0.1:9/b"]}},
    "TriggerBody": {"verifier": {"const": "none"}, "routes": {"enum": [[{"target": "work"}], [{"target": "echo"}]]}},
}


@schemathesis.hook
def before_load_schema(ctx: schemathesis.HookContext, raw_schema: dict[str, Any]) -> None:
    """Lets bodies also be made that are whole, for names that there can be."""
    components = raw_schema["components"]["schemas"]
    for name, properties in WHOLE.items():
        whole = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
        components[name] = {"anyOf": [whole, components[name]]}
    for path in ("/targets/{target}", "/triggers/{trigger}"):
        for parameter in raw_schema["paths"][path]["put"]["parameters"]:
            parameter["schema"] = NAME


@schemathesis.check
def gone_after_delete(
    ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> bool | None:
    """schemathesis's `use_after_free`, but for what a DELETE keeps."""
    return None if case.operation.path in KEPT else use_after_free(ctx, response, case)
