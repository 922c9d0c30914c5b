"""Targets: a configured table, checked against the executor that runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.backoff import CALLBACK_RETRY, RetryPolicy
from gateway.breaker import Breaker
from gateway.errors import ConfigError, PluginError, SecretMissing, WrongState
from gateway.executor import Executor
from gateway.jobs import CALLBACK_TARGET, URL_TARGET, Callback, JobRequest
from gateway.limits import KeyLimits, Limits, flow_fields
from gateway.redaction import secrets_of
from gateway.registry.unread import Unread, unread_executor
from gateway.secret import Secret
from gateway.settings import (
    TARGET_KEYS,
    FieldFault,
    SecretSource,
    Settings,
    TargetCallback,
    TargetSettings,
    decode,
    join_place,
)
from gateway.spelling import mend_name

CALLBACK_EXECUTOR = "http"
CALLBACK_TIMEOUT_S = 30.0
URL_TIMEOUT_S = 30.0
_URL_JOB_MAY = ("headers", "method", "query")


class PerJob(msgspec.Struct, frozen=True):
    """Stands where a target's config is made anew for each of its jobs."""


@dataclass(frozen=True, slots=True)
class Target:
    """A named thing to run; `config` is an instance of its executor's `Config`, `lane` None is the default lane."""

    name: str
    executor: Executor[Any]
    config: Any = field(repr=False)
    lane: str | None
    timeout_s: float
    retry: RetryPolicy
    limit: Limits | None = None
    ordered: bool = False
    place: str = ""
    breaker: Breaker | None = None
    at_once: int = 0
    """How many of its jobs run at once, at most, where its limits do not say; 0: no bound."""
    told: Callback | None = field(default=None, repr=False)
    """The callback of its jobs that name none."""
    untold: str = ""
    """Why this process cannot know it, though there is one."""
    secrets: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    """Those of its config, in the forms in which an error may show them: looked for once, not at each failure."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "secrets", tuple(secrets_of(self.config)))

    @property
    def callback(self) -> Callback | None:
        """That of its jobs that name none; raises WrongState where its secret is not here, for it would not verify."""
        if self.untold:
            raise WrongState(f"target {self.name}: the callback of its jobs is not known here: {self.untold}")
        return self.told

    def check_request(self, request: JobRequest) -> None:
        """Raises ValueError (FieldFault: with the field) unless its jobs may set this of their requests."""
        self.executor.check_request(self.config, request)

    @property
    def flow(self) -> dict[str, int] | None:
        """What the store keeps of the limits; None if the target's jobs wait in the lanes, in no flow of their own."""
        if self.limit is None and not self.ordered and not self.executor.has_flow and self.breaker is None:
            return None
        limits = self.limit or Limits()
        if limits.concurrency is None and self.at_once:
            limits = msgspec.structs.replace(limits, concurrency=self.at_once)
        return flow_fields(limits, ordered=self.ordered, breaker=self.breaker)


def make_target(
    name: str,
    settings: TargetSettings,
    executors: Mapping[str, Executor[Any]],
    *,
    lanes: Sequence[str],
    secrets: SecretSource | None,
    at_once: int = 0,
) -> Target:
    """The target of a configured table; raises ConfigError with the table's place. `at_once` is how many jobs run at
    once of one that calls out and does not say it itself."""
    place = settings.place
    executor = executors.get(settings.executor)
    if executor is None:
        mend = f"{mend_name(settings.executor, sorted(executors))}; a plugin's needs it in plugins, above all sections"
        raise ConfigError(join_place(place, "executor"), f'no executor named "{settings.executor}"; {mend}')
    check_lane(settings.lane, lanes, place)
    try:
        config = decode(settings.config, executor.Config, place, secrets=secrets, beside=TARGET_KEYS)
    except SecretMissing as missing:
        if secrets is None or secrets.required:
            raise
        executor, config = unread_executor(executor, missing), Unread()
    return Target(
        name,
        executor,
        config,
        settings.lane,
        float(settings.timeout),
        settings.retry,
        settings.limit,
        settings.ordered,
        place,
        _breaker(settings.breaker, executor),
        at_once if executor.has_flow else 0,
        None if settings.callback is None else _callback(settings.callback, executors[CALLBACK_EXECUTOR], place),
        settings.untold,
    )


def _callback(wanted: TargetCallback, executor: Executor[Any], place: str) -> Callback:
    """The callback of a target's jobs; raises ConfigError where no request can be made of it."""
    try:
        callback_config(executor, wanted.url, wanted.secret)
    except ConfigError as exc:
        raise ConfigError(join_place(place, exc.place), exc.detail) from exc
    secret = None if wanted.secret is None else wanted.secret.reveal()
    return Callback(wanted.url, wanted.events, secret, wanted.retry)


def _breaker(wanted: Breaker | bool | None, executor: Executor[Any]) -> Breaker | None:
    """The breaker as it is written, or the default one where it is `true`, or left out for an executor that has one."""
    if isinstance(wanted, Breaker):
        return wanted
    return Breaker() if (executor.has_breaker if wanted is None else wanted) else None


def check_lane(lane: str | None, lanes: Sequence[str], place: str) -> None:
    """Raises ConfigError if `lane` is none of `lanes`."""
    if lane is not None and lane not in lanes:
        raise ConfigError(join_place(place, "lane"), f'no lane named "{lane}"; {mend_name(lane, lanes)}')


def check_runnable(target: Target) -> None:
    """Lets the executor look whether the target can run here; raises ConfigError with the target's place."""
    try:
        target.executor.check(target.config)
    except ValueError as exc:
        place = join_place(target.place, exc.field) if isinstance(exc, FieldFault) else target.place
        raise ConfigError(place, str(exc)) from exc
    except Exception as exc:
        detail = f"check() failed for the target {target.name}: {type(exc).__name__}: {exc}"
        raise PluginError(f"executor {target.executor.name}", detail) from exc


def builtin_targets(executors: Mapping[str, Executor[Any]], *, per_host: int) -> dict[str, Target]:
    """The targets of callbacks and of jobs with a URL of their own; a job's key is its host, and `per_host` of a host
    run at once."""
    executor, limit = executors[CALLBACK_EXECUTOR], Limits(per_key=KeyLimits(concurrency=per_host))
    callback = Target(
        CALLBACK_TARGET, executor, PerJob(), None, CALLBACK_TIMEOUT_S, CALLBACK_RETRY, limit, place="callback"
    )
    config = url_config(executor, "http://host.invalid/")
    url = Target(URL_TARGET, executor, config, None, URL_TIMEOUT_S, RetryPolicy(), limit, place="url")
    return {CALLBACK_TARGET: callback, URL_TARGET: url}


def url_config(executor: Executor[Any], url: str) -> Any:
    """The executor's config for one job with a URL of its own; raises ConfigError whose place is `url`."""
    return decode({"url": url, "job_may": list(_URL_JOB_MAY)}, executor.Config, "")


def callback_config(executor: Executor[Any], url: str, secret: Secret | str | None) -> Any:
    """The executor's config for one callback; raises ConfigError whose place begins with `callback`."""
    table: dict[str, object] = {"url": url}
    if secret is not None:
        table["secret"] = secret
    try:
        return decode(table, executor.Config, "")
    except ConfigError as exc:
        raise ConfigError(f"callback.{exc.place}" if exc.place else "callback", exc.detail) from exc


def notices_target(settings: Settings) -> str | None:
    """The target that is told of disabled ones, if any is to be; ConfigError if the file has none of that name."""
    name = settings.notices.target
    if name is not None and name not in settings.targets:
        mend = mend_name(name, list(settings.targets))
        raise ConfigError(settings.place("notices.target"), f'no target named "{name}"; {mend}')
    return name
