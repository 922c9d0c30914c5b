"""How a call becomes an answer: tried again where that is safe, an error where it is not.

The steps are written once, as generators: they yield what is to be done (`Send`, `Pause`) and are told what came of
it. A blocking and an asynchronous client carry the same steps out.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
import msgspec

from gateway.backoff import RetryPolicy, delay_s
from gateway.client.answers import Problem
from gateway.client.call import Call
from gateway.durations import Duration
from gateway.errors import (
    BadAnswer,
    Fault,
    InvalidRequest,
    NotAllowed,
    NotFound,
    RequestError,
    Unavailable,
    WrongState,
)

T = TypeVar("T")

TEMPORARY = frozenset({408, 425, 429, 502, 503, 504})
"""What a gateway, or a proxy before it, says when the same request may do later."""

_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_HOPELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
_ERRORS: dict[int, type[RequestError]] = {
    400: InvalidRequest,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: WrongState,
    422: InvalidRequest,
}


@dataclass(frozen=True, slots=True)
class Send:
    """Send this call, and say what came back."""

    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so long."""

    seconds: float


Outcome = httpx.Response | httpx.TransportError | None
Steps = Generator[Send | Pause, Outcome, T]


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a call is tried again, and how far apart: decorrelated jitter, or what `Retry-After` asks for.

    A gateway that asks for more than `longest_s` is not waited for.
    """

    most: int = 4
    base_s: float = 0.2
    cap_s: float = 5.0
    longest_s: float = 30.0
    rng: random.Random = field(default_factory=random.Random)

    def delay_s(self, attempt: int, previous_s: float) -> float:
        """Seconds until the next try."""
        policy = RetryPolicy(base=Duration(self.base_s), cap=Duration(self.cap_s))
        return delay_s(policy, attempt, previous_s, self.rng)


def exchange(call: Call[T], retries: Retries) -> Steps[T]:
    """The call's answer. Raises RequestError, Unavailable or BadAnswer."""
    previous_s, attempt = 0.0, 1
    while True:
        outcome = yield Send(call)
        assert outcome is not None
        wait_s = _asked_s(outcome)
        if attempt > retries.most or wait_s > retries.longest_s or not may_repeat(call, outcome):
            return read(call, outcome)
        previous_s = retries.delay_s(attempt, previous_s)
        yield Pause(max(previous_s, wait_s))
        attempt += 1


def may_repeat(call: Call[Any], outcome: httpx.Response | httpx.TransportError) -> bool:
    """Whether the same request again can do better, and cannot do twice what was to be done once."""
    if isinstance(outcome, httpx.TransportError):
        return isinstance(outcome, _UNSENT) or (call.repeat == "safe" and not isinstance(outcome, _HOPELESS))
    return outcome.status_code == 429 or (call.repeat == "safe" and outcome.status_code in TEMPORARY)


def read(call: Call[T], outcome: httpx.Response | httpx.TransportError) -> T:
    """What the outcome means."""
    if isinstance(outcome, httpx.TransportError):
        detail = f"no gateway answers at {_place(outcome)}: {said(outcome)}"
        raise Unavailable(detail, idempotency_key=call.idempotency_key) from outcome
    if not outcome.is_success:
        raise error_of(call, outcome)
    try:
        return call.read(outcome.content)
    except (msgspec.MsgspecError, KeyError) as exc:
        place = f"{call.method} {outcome.url.copy_with(query=None)}"
        raise BadAnswer(f"{place}: the answer is not that of a gateway of this version: {exc}") from exc


def error_of(call: Call[Any], response: httpx.Response) -> Exception:
    """The error that an answer stands for."""
    status = response.status_code
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.MsgspecError:
        problem = None
    if status in TEMPORARY:
        detail = problem.detail if problem else f"{status} {response.reason_phrase}"
        return Unavailable(f"the gateway cannot do it now: {detail}", idempotency_key=call.idempotency_key)
    if problem is None:
        where = f" (it points to {response.headers['location']})" if "location" in response.headers else ""
        return BadAnswer(f"{response.url.copy_with(query=None)} is not a gateway: it answered {status}{where}")
    faults = tuple(Fault(each.pointer, each.detail) for each in problem.errors)
    return _ERRORS.get(status, RequestError)(_detail(problem), faults=faults, status=status)


def _detail(problem: Problem) -> str:
    """The problem's own words, and the faults where they say more."""
    errors = [each for each in problem.errors if each.detail not in problem.detail]
    more = [f"{each.pointer}: {each.detail}" if each.pointer else each.detail for each in errors]
    return f"{problem.detail}: {'; '.join(more)}" if more else problem.detail


def _asked_s(outcome: httpx.Response | httpx.TransportError) -> float:
    """How long `Retry-After` asks to wait: seconds, or a date (by the answer's own clock); 0 where it does not."""
    if isinstance(outcome, httpx.TransportError):
        return 0.0
    text = outcome.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        until, now = (parsedate_to_datetime(each) for each in (text, outcome.headers.get("date", "")))
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def garbled(error: httpx.DecodingError) -> BadAnswer:
    """For an answer that is not encoded as it says."""
    return BadAnswer(f"{_place(error)} is not a gateway: its answer cannot be decoded: {error}")


def said(error: Exception) -> str:
    """An error in words; those of the HTTP library for a time that is over have none."""
    return str(error) or ("not in time" if isinstance(error, httpx.TimeoutException) else type(error).__name__)


def _place(error: httpx.RequestError) -> str:
    try:
        return str(error.request.url.copy_with(query=None))
    except RuntimeError:  # raised before there was a request
        return "this URL"
