"""Runs one attempt of a claimed job and says how it ended, as the settlement that is to be written back."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import InitVar, dataclass, field
from functools import partial
from time import monotonic
from typing import Any

import structlog

from gateway.callbacks import render
from gateway.callouts import CallOuts
from gateway.completion import completion_token
from gateway.errors import ConfigError, EgressDenied, Fatal, NotFound, Retry, StoreError
from gateway.executor import ENDING_S, Attempt, Deferred, HttpClient, Job, Payload, Result
from gateway.jobs import (
    BUILT_IN,
    CALLBACK_TARGET,
    GONE,
    NO_OPTIONS,
    URL_TARGET,
    Claimed,
    Options,
    Settlement,
    unpack_body,
)
from gateway.registry import Registry, Target
from gateway.results import encode_error, error_of, result_of
from gateway.signing import SigningKey
from gateway.tracing.attempts import AttemptSpans, traceparent_of
from gateway.verdicts import Verdicts, out_of_time, settle

log = structlog.get_logger(__name__)


def _ignore(claimed: Claimed, value: Any) -> None:
    """Progress that nobody records."""


@dataclass(slots=True)
class Runner:
    """Runs attempts against the registry's executors; one per process, any number of attempts at once."""

    registry: Registry
    http: HttpClient
    rng: InitVar[random.Random | None] = None
    callouts: CallOuts = field(default_factory=CallOuts)
    traces: AttemptSpans | None = None
    report: Callable[[Claimed, Any], None] = _ignore
    signing_keys: Callable[[], tuple[SigningKey, ...]] = tuple
    no_target_after_s: InitVar[float] = 0.0
    refresh: Callable[[], Awaitable[object]] | None = None
    """Has the registry look for targets that were registered since it last did."""
    verdicts: Verdicts = field(init=False)

    def __post_init__(self, rng: random.Random | None, no_target_after_s: float) -> None:
        self.verdicts = Verdicts(self.registry, rng or random.Random(), no_target_after_s)  # noqa: S311 (jitter)

    async def run(
        self, claimed: Claimed, cancelled: asyncio.Event, *, deadline: Callable[[float], None] | None = None
    ) -> Settlement:
        """How the attempt ended. CancelledError passes: who cancels decides whether that is a release or an end, and
        `strayed` makes the settlement where nobody did. GeneratorExit passes too: it may be the coroutine's own end.

        The attempt's time is kept here, unless `deadline` is given: it is told the loop's time at which the caller
        must cancel, and `timed_out` makes the settlement then. One sweep over many attempts costs less than a timer
        each.
        """
        try:
            target = self.registry.target(claimed.target)
        except NotFound:
            try:
                target = await self._lately_registered(claimed.target)
            except NotFound as error:
                return self.verdicts.given_back(claimed, error)
        options = NO_OPTIONS
        try:
            options, payload = unpack_body(claimed.body)
            attempt = self._attempt(claimed, target, options, payload, cancelled)
            if deadline is None:
                result = await self._in_time(target, attempt)
            else:
                attempt.moved = deadline
                deadline(attempt.deadline)
                result = await target.executor.execute(attempt)
            if isinstance(result, Deferred):
                return self.verdicts.parked(claimed, target, options, result, attempt.completion_token)
            return Settlement(claimed.job_id, claimed.token, "succeeded", 0, "", _result(target, result))
        except Fatal as failure:
            gone = failure.gone and not claimed.target.startswith(BUILT_IN)
            told = error_of(failure, target.secrets)
            return settle(claimed, "dead", reason=GONE if gone else "fatal", error=told)
        except ConfigError as failure:  # a callback that cannot be sent: its URL or secret is not usable
            return settle(claimed, "dead", reason="fatal", error=encode_error("config", str(failure)))
        except EgressDenied as failure:
            return settle(claimed, "dead", reason="fatal", error=encode_error("egress_denied", str(failure)))
        except Exception as failure:  # one job's failure must not be everyone's
            return self.verdicts.failed(claimed, target, options, failure)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as failure:  # what ends a process must not do so from within a job
            return self.verdicts.failed(claimed, target, options, _stray(failure, target))

    def ending_s(self, claimed: Claimed) -> float:
        """How long the attempt may take to end once it is cancelled."""
        try:
            target = self.registry.target(claimed.target)
        except NotFound:  # removed meanwhile
            return ENDING_S
        try:
            return float(target.executor.ending_s(target.config))
        except Exception as error:  # one plugin's failure must not be that of all whose time is kept
            log.error("ending_s() of an executor failed", target=target.name, error=type(error).__name__, as_s=ENDING_S)
            return ENDING_S

    def timed_out(self, claimed: Claimed) -> Settlement:
        """The outcome of an attempt that was cancelled at its deadline."""
        return self._failed_late(claimed, lambda target: out_of_time())

    def strayed(self, claimed: Claimed, error: BaseException) -> Settlement:
        """The outcome of an attempt that `run` let go with an error which nobody had asked for."""
        return self._failed_late(claimed, lambda target: _stray(error, target))

    def _failed_late(self, claimed: Claimed, failure: Callable[[Target], Exception]) -> Settlement:
        try:
            target = self.registry.target(claimed.target)
        except NotFound as error:  # removed meanwhile
            return self.verdicts.without_target(claimed, error)
        return self.verdicts.failed(claimed, target, unpack_body(claimed.body)[0], failure(target))

    async def _lately_registered(self, name: str) -> Target:
        """A target that this process has not heard of so far; raises NotFound."""
        if self.refresh is not None:
            try:
                await self.refresh()
            except StoreError as error:
                log.warning("registered targets not read", error=str(error))
        return self.registry.target(name)

    async def _in_time(self, target: Target, attempt: Attempt[Any]) -> Result | Deferred:
        limit = asyncio.timeout_at(attempt.deadline)
        attempt.moved = lambda deadline_s: limit.reschedule(deadline_s if deadline_s < math.inf else None)
        try:
            async with limit:
                return await target.executor.execute(attempt)
        except TimeoutError as failure:
            if limit.expired():
                raise out_of_time() from failure
            raise

    def _attempt(
        self, claimed: Claimed, target: Target, options: Options, payload: bytes, cancelled: asyncio.Event
    ) -> Attempt[Any]:
        config = target.config
        if claimed.target == CALLBACK_TARGET:
            callback = render(options, payload)
            config, payload = self.registry.callback_config(callback.url, callback.secret), callback.body
        elif claimed.target == URL_TARGET and options.request is not None:
            config = self.registry.url_config(options.request.url or "")
        trace = None
        if self.traces is not None and (options.traceparent or options.parent is not None):
            trace = self.traces.begin(claimed, options)
        job = Job(
            claimed.job_id,
            claimed.target,
            claimed.lane,
            claimed.key,
            claimed.max_attempts,
            claimed.created_ms,
            options.tags,
            str(trace) if trace is not None else traceparent_of(options),
            options.request,
        )
        keys = self.signing_keys()
        timeout_s = options.timeout if options.timeout is not None else target.timeout_s
        return Attempt(
            job=job,
            payload=Payload(payload),
            config=config,
            number=claimed.attempt,
            token=claimed.token,
            deadline=monotonic() + timeout_s,
            log=log,
            http=self.callouts.client(self.http, claimed.target, trace),
            cancelled=cancelled,
            report=partial(self.report, claimed),
            signing_keys=keys,
            # what whoever goes on with it elsewhere ends it with
            completion_token=completion_token(keys[0], claimed.job_id, claimed.token)
            if keys and target.executor.defers
            else "",
        )


def _code_of(target: Target) -> str:
    return target.executor.code_name(target.config) or f"the target {target.name}"


def _stray(error: BaseException, target: Target) -> Retry:
    """A failed attempt, for what would otherwise end the process or pass for somebody's cancellation."""
    kind = type(error).__name__
    try:
        args = ", ".join(map(repr, error.args))
    except Exception:  # a value's own code
        args = "…"
    return Retry(f"{_code_of(target)} raised {kind}({args})", type=kind.lower())


def _result(target: Target, result: object) -> str:
    """The result's JSON; Fatal if it has none, since the work is done, and would only be done again."""
    if not isinstance(result, Result):
        who, what = type(target.executor).__name__, type(result).__name__
        raise Fatal(f"{who}.execute returned {what}, not a Result; return Result(value)", type="result")
    return "" if result.value is None else result_of(result.value, _code_of(target))
