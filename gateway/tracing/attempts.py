"""The spans of a dispatcher: what becomes of the sampled jobs that it claims. Of the others it keeps nothing, and asks
nothing but whether they are `traced`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import Token
from dataclasses import dataclass

from opentelemetry import context as current
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, set_span_in_context

from gateway.jobs import Claimed, Options, Settlement
from gateway.results import error_type
from gateway.tracing.context import TraceContext, is_sampled
from gateway.tracing.live import LiveSpan
from gateway.tracing.spans import Attributes, span_context
from gateway.tracing.tracing import Tracing

GATHER_S = 0.1
"""After the first traced attempt of a batch began: by then the others have."""

BATCHES_MOST = 64
"""Batches whose size and time are remembered for this."""

_FAILED = frozenset({"retry", "dead"})


@dataclass(slots=True)
class _Open:
    """An attempt that is under way: its span, its job's, and when it began."""

    own: TraceContext
    job: TraceContext
    began_ns: int
    live: LiveSpan
    attached: Token[Context]
    done_ns: int = 0


class AttemptSpans:
    """The attempts under way that are traced, by job id and token."""

    def __init__(self, tracing: Tracing, dispatcher_id: str = "") -> None:
        self.dispatcher_id = dispatcher_id
        self._tracing = tracing
        self._open: dict[tuple[str, str], _Open] = {}
        self._begun: dict[str, list[TraceContext]] = {}
        self._batches: dict[str, tuple[int, int]] = {}

    def begin(self, claimed: Claimed, options: Options) -> TraceContext | None:
        """The attempt's place in its job's trace, which is the current span of the task that runs it until `done` or
        `lost`; None where the trace is not sampled."""
        text = traceparent_of(options)
        if not is_sampled(text) or (job := TraceContext.parse(text)) is None:
            return None
        own = self._tracing.below(job)
        live = LiveSpan(span_context(own, remote=False))
        attached = current.attach(set_span_in_context(live))
        claimed.traced = True
        self._open[claimed.job_id, claimed.token] = _Open(own, job, self._tracing.now_ns(), live, attached)
        self._gather(claimed, job)
        return own

    def trace_of(self, claimed: Claimed) -> str:
        """The trace's id, for logs; empty where there is none."""
        it = self._open.get((claimed.job_id, claimed.token))
        return it.own.trace if it is not None else ""

    def done(self, claimed: Claimed) -> None:
        """The executor has returned, and this is its task; what is left is to write the outcome."""
        it = self._open.get((claimed.job_id, claimed.token))
        if it is not None:
            current.detach(it.attached)
            it.done_ns = self._tracing.now_ns()

    def lost(self, claimed: Claimed) -> None:
        """The lease was lost, and whatever the attempt brings is refused; this is its task."""
        it = self._open.pop((claimed.job_id, claimed.token), None)
        if it is not None:
            current.detach(it.attached)
            now_ns = self._tracing.now_ns()
            self._process(claimed, it, now_ns, {"gateway.outcome": "lost"}, error="lease_lost")

    def settled(self, claimed: Claimed, settlement: Settlement, status: str) -> None:
        """The outcome is written, or refused."""
        it = self._open.pop((claimed.job_id, claimed.token), None)
        if it is None:
            return
        now_ns = self._tracing.now_ns()
        facts: dict[str, str | int] = {"gateway.outcome": "lost" if status == "lost" else settlement.outcome}
        events: list[tuple[str, int, Attributes]] = [("executed", it.done_ns or now_ns, {})]
        if status == "retrying":
            events.append(("retry scheduled", now_ns, {"gateway.delay_ms": settlement.delay_ms}))
        elif status == "dead":
            facts["gateway.reason"] = settlement.shown_reason
            events.append(("dead", now_ns, {"gateway.reason": settlement.shown_reason}))
        else:
            events.append(("settled", now_ns, {}))
        error = "lease_lost" if status == "lost" else _error_of(settlement)
        self._process(claimed, it, now_ns, facts, events=events, error=error)

    def reclaimed(self, job_id: str, target: str, options: Options, status: str) -> None:
        """A job's dispatcher was lost: who took it back says so."""
        text = traceparent_of(options)
        if is_sampled(text) and (job := TraceContext.parse(text)) is not None:
            now_ns = self._tracing.now_ns()
            facts = {"messaging.message.id": job_id, "gateway.target": target, "gateway.status": status}
            self._tracing.spans.add(
                f"reclaim {target}",
                self._tracing.below(job),
                parent=job,
                began_ns=now_ns,
                ended_ns=now_ns,
                attributes=facts,
                error="lease_expired",
            )

    def claimed(self, jobs: Sequence[Claimed]) -> None:
        """A batch was claimed; its attempts begin within the next turns of the loop, and tell then which are traced."""
        self._batches[_nonce(jobs[0])] = (len(jobs), self._tracing.now_ns())
        if len(self._batches) > BATCHES_MOST:
            del self._batches[next(iter(self._batches))]

    def flush(self) -> None:
        """Makes the spans of batches that still gather who is traced in them."""
        for nonce in list(self._begun):
            self._received(nonce)

    def _gather(self, claimed: Claimed, job: TraceContext) -> None:
        nonce = _nonce(claimed)
        if nonce not in self._begun:
            self._begun[nonce] = []
            asyncio.get_running_loop().call_later(GATHER_S, self._received, nonce)
        self._begun[nonce].append(job)

    def _received(self, nonce: str) -> None:
        """Where some of a batch are traced it has a span of its own, which links to them: no single one of the jobs is
        the parent of it."""
        begun = self._begun.pop(nonce, [])
        if not begun:
            return
        size, at_ns = self._batches.get(nonce) or (len(begun), self._tracing.now_ns())
        self._tracing.spans.add(
            "receive",
            self._tracing.apart(),
            kind=SpanKind.CLIENT,
            began_ns=at_ns,
            ended_ns=at_ns,
            attributes={
                "messaging.system": "event-gateway",
                "messaging.operation.name": "claim",
                "messaging.operation.type": "receive",
                "messaging.batch.message_count": size,
                "messaging.client.id": self.dispatcher_id,
            },
            links=begun,
        )

    def _process(
        self,
        claimed: Claimed,
        it: _Open,
        ended_ns: int,
        facts: Attributes,
        *,
        events: Sequence[tuple[str, int, Attributes]] = (),
        error: str = "",
    ) -> None:
        added = [(name, at_ns or ended_ns, more) for name, at_ns, more in it.live.events]
        self._tracing.spans.add(
            f"process {claimed.target}",
            it.own,
            parent=it.job,
            kind=SpanKind.CONSUMER,
            began_ns=it.began_ns,
            ended_ns=ended_ns,
            attributes={
                **it.live.attributes,
                "messaging.system": "event-gateway",
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.destination.name": claimed.target,
                "messaging.message.id": claimed.job_id,
                "messaging.client.id": self.dispatcher_id,
                "gateway.lane": claimed.lane,
                "gateway.attempt": claimed.attempt,
                "gateway.waited_ms": claimed.waited_ms,
                **facts,
            },
            events=[*added, *events],
            error=error,
        )


def traceparent_of(options: Options) -> str:
    """That of a job; a callback's is that of the job which it tells of."""
    return options.parent.traceparent if options.parent is not None else options.traceparent


def _nonce(claimed: Claimed) -> str:
    return claimed.token.partition(":")[2]


def _error_of(settlement: Settlement) -> str:
    return error_type(settlement.error) or "error" if settlement.outcome in _FAILED else ""
