"""Deliveries: verified by their signature, matched to targets, queued in one atomic submit."""

from __future__ import annotations

from typing import Any

from gateway.api.bodies import BodyLimits
from gateway.api.call import Call
from gateway.api.jobs import announce
from gateway.api.problems import Refused
from gateway.api.reply import Reply, json_reply
from gateway.errors import NotFound, Rejected, StoreFull
from gateway.jobs import Submission, Submitted
from gateway.submission import delivery_submissions
from gateway.triggers import Trigger
from gateway.verifier import Delivery, HandshakeResponse, WebhookRequest

LOCAL_URL = "http://localhost"


async def receive(call: Call) -> Reply:
    """202 with the delivery's jobs, or a provider's handshake answered; one and the same 401 whatever is wrong."""
    gateway, name = call.gateway, call.path_value("trigger")
    trigger = gateway.registry.triggers.get(name)
    if trigger is None:
        raise NotFound(f"no trigger named {name[:64]!r}")
    request = await _request(call, trigger)
    try:
        answer = trigger.verifier.handshake(request)
        delivery = None if answer is not None else trigger.verifier.verify(request, gateway.clock())
    except Rejected as error:
        gateway.metrics.count_delivery(name, "rejected")
        gateway.metrics.count_rejected_delivery(name, error.reason)
        gateway.rejections.tell(name, error.reason, now_s=gateway.clock())
        raise Refused(401, "the delivery does not verify") from error
    answer = delivery.answer if delivery is not None else answer
    if answer is not None or delivery is None:
        gateway.metrics.count_delivery(name, "handshake")
        return _handshake(answer or HandshakeResponse())
    return await _deliver(call, trigger, request, delivery)


async def _deliver(call: Call, trigger: Trigger, request: WebhookRequest, delivery: Delivery) -> Reply:
    gateway, now_s = call.gateway, call.gateway.clock()
    matches = trigger.match(request, delivery)
    if not matches:
        gateway.metrics.count_delivery(trigger.name, "unrouted")
        return json_reply({"jobs": [], "duplicate": False}, 202)
    jobs = delivery_submissions(trigger.name, matches, gateway.catalog, now_s=now_s)
    submitted = await call.in_time(lambda: gateway.store.submit(jobs))
    if any(each.verdict == "full" for each in submitted):
        raise StoreFull("a lane is full; send the delivery again")
    announce(call, jobs, submitted, now_s=now_s)
    duplicate = all(each.verdict == "duplicate" for each in submitted)
    gateway.metrics.count_delivery(trigger.name, "duplicate" if duplicate else "accepted")
    return json_reply({"jobs": _jobs(jobs, submitted), "duplicate": duplicate}, 202)


def _jobs(jobs: list[Submission], submitted: list[Submitted]) -> list[dict[str, Any]]:
    return [{"job_id": each.job_id, "target": job.target} for job, each in zip(jobs, submitted, strict=True)]


async def _request(call: Call, trigger: Trigger) -> WebhookRequest:
    own = call.gateway.settings.gateway
    configured = call.gateway.settings.triggers.get(trigger.name)
    own_limit = configured.body_limit if configured is not None else None
    most = own_limit or trigger.verifier.body_limit or own.max_body
    body = await call.body(BodyLimits(most, float(own.body_timeout)))
    path = call.scope.get("raw_path") or call.scope["path"].encode()
    query = call.scope["query_string"]
    target = (path + b"?" + query if query else path).decode("latin-1")
    return WebhookRequest(
        method=call.scope["method"],
        url=(own.public_url or LOCAL_URL).rstrip("/") + target,
        headers=tuple((key.decode("latin-1"), value.decode("latin-1")) for key, value in call.headers),
        body=body,
    )


def _handshake(answer: HandshakeResponse) -> Reply:
    headers = tuple((key.lower().encode("latin-1"), value.encode("latin-1")) for key, value in answer.headers)
    return Reply(answer.status, answer.body, b"", headers)
