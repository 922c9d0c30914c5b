"""A request's place in a trace: its own span, those of the jobs that it sends, and what goes with the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
from opentelemetry.trace import SpanKind

from gateway.jobs import Options, Submission
from gateway.tracing import TraceContext, Tracing
from gateway.tracing.context import is_sampled
from gateway.tracing.spans import LINKS_MOST, Attributes

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(slots=True)
class RequestTrace:
    """The trace of one request; where it is not sampled, only what its jobs pass on."""

    tracing: Tracing
    parent: TraceContext | None
    own: TraceContext
    began_ns: int
    sent: list[tuple[TraceContext, Submission]] = field(default_factory=list)

    @classmethod
    def enter(cls, tracing: Tracing, headers: Headers) -> RequestTrace:
        """Goes on with the client's trace, if it names one."""
        given = next((value for name, value in headers if name == b"traceparent"), b"")
        parent = TraceContext.parse(given.decode("latin-1"))
        return cls(tracing, parent, tracing.enter(parent), tracing.now_ns())

    def stamp(self, jobs: list[Submission]) -> list[Submission]:
        """The jobs with the place in the trace that their attempts go below: for each a span of its own, since a batch
        is the parent of none of them. Of a batch no more are traced than a span may have links."""
        if not self.own.sampled:
            return [_with(job, str(replace(self.parent, sampled=False)) if self.parent else "") for job in jobs]
        out = []
        for job in jobs:
            traced = len(self.sent) < LINKS_MOST
            below = self.tracing.below(self.own)
            if traced:
                self.sent.append((below, job))
            out.append(_with(job, str(below if traced else replace(below, sampled=False))))
        return out

    def end(self, method: str, route: str, status: int) -> None:
        """The answer is made: the spans of the request and of what it sent."""
        if not self.own.sampled:
            return
        now_ns = self.tracing.now_ns()
        facts: Attributes = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
        self.tracing.spans.add(
            f"{method} {route}",
            self.own,
            parent=self.parent,
            kind=SpanKind.SERVER,
            began_ns=self.began_ns,
            ended_ns=now_ns,
            attributes=facts,
            error=str(status) if status >= 500 else "",
        )
        taken = self.sent if status < 400 else []
        for below, job in taken:
            self._send(below, job, now_ns, alone=len(taken) == 1)
        if len(taken) > 1:
            self._send_batch(taken, now_ns)

    def replayed(self, job_id: str, target: str, options: Options) -> None:
        """A dead job was sent back: told in its own trace, which this request is linked to."""
        if is_sampled(options.traceparent) and (job := TraceContext.parse(options.traceparent)) is not None:
            now_ns = self.tracing.now_ns()
            self.tracing.spans.add(
                f"replay {target}",
                self.tracing.below(job),
                parent=job,
                kind=SpanKind.PRODUCER,
                began_ns=self.began_ns,
                ended_ns=now_ns,
                attributes={"messaging.message.id": job_id, "messaging.destination.name": target},
                links=[self.own],
            )

    def _send(self, below: TraceContext, job: Submission, now_ns: int, *, alone: bool) -> None:
        self.tracing.spans.add(
            f"{'send' if alone else 'create'} {job.target}",
            below,
            parent=self.own,
            kind=SpanKind.PRODUCER,
            began_ns=self.began_ns,
            ended_ns=now_ns,
            attributes={
                "messaging.system": "event-gateway",
                "messaging.operation.name": "submit",
                "messaging.operation.type": "send" if alone else "create",
                "messaging.destination.name": job.target,
                "messaging.message.id": job.job_id,
                "gateway.lane": job.lane,
            },
        )

    def _send_batch(self, taken: Sequence[tuple[TraceContext, Submission]], now_ns: int) -> None:
        self.tracing.spans.add(
            "send batch",
            self.tracing.below(self.own),
            parent=self.own,
            kind=SpanKind.CLIENT,
            began_ns=self.began_ns,
            ended_ns=now_ns,
            attributes={
                "messaging.system": "event-gateway",
                "messaging.operation.name": "submit",
                "messaging.operation.type": "send",
                "messaging.batch.message_count": len(taken),
            },
            links=[below for below, _ in taken],
        )


def _with(job: Submission, traceparent: str) -> Submission:
    if job.options.traceparent == traceparent:
        return job
    return msgspec.structs.replace(job, options=msgspec.structs.replace(job.options, traceparent=traceparent))
