"""Many jobs at once: cut into batches that a gateway takes, each repeated as a whole or in part where that is safe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gateway.client.answers import BatchResult, Problem
from gateway.client.bodies import JobBody
from gateway.client.calls.jobs import MOST_IN_BATCH, encode_job, submit_batch
from gateway.client.exchange import Pause, Retries, Steps, exchange
from gateway.errors import RequestError, Unavailable

MOST_BYTES = 900_000
"""Of one batch: less than the MiB that a gateway takes unless `gateway.max_body` says otherwise."""

_LATER = 503
_TOO_LARGE = 413


def submit_many(
    bodies: Iterable[JobBody], *, most_bytes: int, retries: Retries, new_key: Callable[[], str]
) -> Steps[list[BatchResult]]:
    """What became of each job, in order; those that no gateway took in have an `error`.

    Raises RequestError where all would be refused for the same reason (401, 403), and ValueError or TypeError for a
    job that cannot be written, before any is sent.
    """
    texts = [encode_job(body, new_key()) for body in bodies]
    results: list[BatchResult] = []
    for batch in _batches(texts, most_bytes):
        results += yield from _submit(batch, retries)
    return results


def _submit(texts: list[bytes], retries: Retries) -> Steps[list[BatchResult]]:
    """One batch; jobs that had to stay out for now (a full lane) are tried again."""
    results: list[BatchResult] = [BatchResult()] * len(texts)
    todo, previous_s = list(range(len(texts))), 0.0
    for attempt in range(1, retries.most + 2):
        found = yield from _send([texts[at] for at in todo], retries)
        for at, result in zip(todo, found, strict=True):
            results[at] = result
        todo = [at for at in todo if _may_do_later(results[at])]
        if not todo or attempt > retries.most:
            break
        previous_s = retries.delay_s(attempt, previous_s)
        yield Pause(previous_s)
    return results


def _send(texts: list[bytes], retries: Retries) -> Steps[list[BatchResult]]:
    try:
        answer = yield from exchange(submit_batch(texts), retries)
    except Unavailable as error:
        return [_failed(0, "Unavailable", str(error))] * len(texts)
    except RequestError as error:
        if error.status != _TOO_LARGE:
            raise
        return [_failed(_TOO_LARGE, "Content Too Large", error.detail)] * len(texts)
    return answer.results


def _may_do_later(result: BatchResult) -> bool:
    return result.error is not None and result.error.status == _LATER


def _failed(status: int, title: str, detail: str) -> BatchResult:
    return BatchResult(error=Problem(type="about:blank", title=title, status=status, detail=detail))


def _batches(texts: list[bytes], most_bytes: int) -> Iterator[list[bytes]]:
    """The jobs in order, as many at a time as one batch holds; one that is too large goes alone."""
    batch: list[bytes] = []
    size = 2
    for text in texts:
        if batch and (len(batch) == MOST_IN_BATCH or size + len(text) + 1 > most_bytes):
            yield batch
            batch, size = [], 2
        batch.append(text)
        size += len(text) + 1
    if batch:
        yield batch
