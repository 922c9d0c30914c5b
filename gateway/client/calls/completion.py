"""Long work: what its target tells of a job, by the token that came with the attempt."""

from __future__ import annotations

from typing import Any

from gateway.client.answers import Beaten, Ended
from gateway.client.bodies import Span, encode
from gateway.client.call import Call, answer, path


def complete(job_id: str, token: str, result: Any = None) -> Call[Ended]:
    """The work went well."""
    return _tell(job_id, "complete", token, {"result": result})


def fail(
    job_id: str, token: str, *, message: str | None, type: str | None, retry: bool, after: Span | None
) -> Call[Ended]:
    """The work failed; it is tried again, no sooner than `after`, unless `retry` is False."""
    said = {"message": message, "type": type, "after": after}
    return _tell(job_id, "fail", token, {"retry": retry, **{name: it for name, it in said.items() if it is not None}})


def heartbeat(job_id: str, token: str, progress: Any = None) -> Call[Beaten]:
    """The work goes on, and how far it is."""
    content = encode({} if progress is None else {"progress": progress})
    where = path("jobs", job_id, "heartbeat")
    return Call(method="POST", path=where, read=answer(Beaten), headers={"gateway-token": token}, content=content)


def _tell(job_id: str, way: str, token: str, body: dict[str, Any]) -> Call[Ended]:
    return Call(
        method="POST",
        path=path("jobs", job_id, way),
        read=answer(Ended),
        headers={"gateway-token": token},
        content=encode(body),
        repeat="unsent",
    )
