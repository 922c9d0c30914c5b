"""What an attempt's task has as its current span, and what a batch's span tells."""

from __future__ import annotations

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import INVALID_SPAN, get_current_span

from gateway.jobs import Claimed, Options, Settlement
from gateway.limits import Rate
from gateway.tracing import Sampler, Tracing
from gateway.tracing.attempts import AttemptSpans
from gateway.tracing.export import ExportedSpans

SAMPLED, UNSAMPLED = (f"00-{7:032x}-{9:016x}-0{flag}" for flag in (1, 0))


class Kept:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)

    def shutdown(self) -> None:
        return


def claimed(number: int) -> Claimed:
    return Claimed(f"job-{number}", 1, 5, "t", "low", "", 0, 1, 20, suspect=False, body=b"", token="1:d.1")


async def test_span_is_current_from_begin_until_done_and_the_batch_links_to_the_traced() -> None:
    kept = Kept()
    sampler = Sampler.of({}, Rate("10/s"), lambda: 0.0)
    spans = AttemptSpans(Tracing(ExportedSpans(kept, Resource({}), version="1"), sampler), "d")
    jobs = [claimed(number) for number in range(3)]
    spans.claimed(jobs)
    assert spans.begin(jobs[0], Options(traceparent=UNSAMPLED)) is None
    assert get_current_span() is INVALID_SPAN
    for job in jobs[1:]:
        own = spans.begin(job, Options(traceparent=SAMPLED))
        assert own is not None
        current = get_current_span()
        assert current.get_span_context().span_id == own.span_id
        current.set_attribute("shop.n", 1)
        spans.done(job)
        assert get_current_span() is INVALID_SPAN  # the next job's task may be the same
        spans.settled(job, Settlement(job.job_id, job.token, "succeeded"), "succeeded")
    spans.flush()
    assert [job.traced for job in jobs] == [False, True, True]
    assert [span.name for span in kept.spans] == ["process t", "process t", "receive"]
    (attributes, links) = (kept.spans[2].attributes or {}, kept.spans[2].links)
    assert (attributes["messaging.batch.message_count"], len(links)) == (3, 2)
    assert (kept.spans[0].attributes or {})["shop.n"] == 1
