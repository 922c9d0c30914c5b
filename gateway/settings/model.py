"""What can be set: the sections of `gateway.toml`, their defaults and ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.durations import Duration
from gateway.jobs import LANES
from gateway.keys import MAX_PARTITIONS
from gateway.limits import Rate
from gateway.redis_url import parse_redis_url
from gateway.secret import Secret
from gateway.settings.checks import (
    FieldFault,
    between,
    check_allowed,
    check_api_key,
    check_host,
    check_name,
    check_networks,
    check_public_url,
    check_signing_key,
)
from gateway.settings.secrets import SecretSource
from gateway.settings.tables import ScheduleSettings, TargetSettings, TriggerSettings

_MIB = 1024 * 1024
LOCAL_URL = "http://localhost"
WEIGHTS = {"critical": 70, "default": 20, "low": 10}

Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=0, le=100_000_000)]


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[gateway]`: where it listens, how it runs jobs, what a request may be; port 0 is any free one."""

    host: str = "127.0.0.1"
    port: Port = 8080
    dispatcher_host: str = "127.0.0.1"
    dispatcher_port: Port = 8081
    public_url: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    api_key: Secret | None = None
    signing_key: Secret | None = None
    previous_signing_keys: tuple[Secret, ...] = ()
    url_jobs: bool = False
    namespace: str = "default"
    partitions: Annotated[int, Meta(ge=1, le=MAX_PARTITIONS)] | None = None
    durability: Literal["memory", "fsync", "replica"] = "memory"
    replicas: Annotated[int, Meta(ge=1, le=16)] = 1
    slots: Annotated[int, Meta(ge=1, le=10_000)] = 100
    lease: Duration = Duration(30)
    max_stalls: Annotated[int, Meta(ge=0, le=100)] = 2
    no_target_after: Duration = Duration(300)
    drain: Duration = Duration(25)
    idempotency_window: Duration = Duration(86400)
    max_body: Annotated[int, Meta(ge=1024, le=64 * _MIB)] = _MIB
    max_arriving: Annotated[int, Meta(ge=_MIB, le=64 * 1024 * _MIB)] = 256 * _MIB
    max_headers: Annotated[int, Meta(ge=8, le=1000)] = 128
    max_header_bytes: Annotated[int, Meta(ge=1024, le=_MIB)] = 65536
    body_timeout: Duration = Duration(10)
    hold: Duration = Duration(60)
    stuck_after: Duration = Duration(30)
    traces_from_outside: Rate = Rate("10/s")
    log_format: Literal["auto", "json", "console"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def base_url(self) -> str:
        """What the path of a request comes behind, as its sender sees it; a local one until somebody says which."""
        return (self.public_url or LOCAL_URL).rstrip("/")

    @property
    def logs_transitions(self) -> bool:
        """Does the log level let the lines of jobs through?"""
        return self.log_level in ("debug", "info")

    def __post_init__(self) -> None:
        between("lease", self.lease, "1s", "1h")
        between("no_target_after", self.no_target_after, "0s", "7d")
        between("drain", self.drain, "0s", "1h")
        between("idempotency_window", self.idempotency_window, "1s", "30d")
        between("body_timeout", self.body_timeout, "100ms", "10m")
        between("hold", self.hold, "0s", "10m")
        between("stuck_after", self.stuck_after, "1s", "1h")
        check_name("namespace", self.namespace)
        check_networks("trusted_proxies", self.trusted_proxies)
        check_host("dispatcher_host", self.dispatcher_host)
        check_host("host", self.host)
        if self.public_url is not None:
            check_public_url(self.public_url)
        if self.api_key is not None:
            check_api_key("api_key", self.api_key)
        if self.signing_key is not None:
            check_signing_key("signing_key", self.signing_key)
        for at, key in enumerate(self.previous_signing_keys):
            check_signing_key(f"previous_signing_keys[{at}]", key)


class EgressSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[egress]`: networks and hosts that call-outs may reach beside the public internet; `per_host` is how many
    callbacks, and how many jobs with a URL of their own, run at once for each host; `per_target` is how many jobs of an
    http target without a `limit.concurrency` do (0: no bound), so that one that hangs leaves slots to the others."""

    allow: tuple[str, ...] = ()
    per_host: Annotated[int, Meta(ge=1, le=10_000)] = 20
    per_target: Annotated[int, Meta(ge=0, le=10_000)] = 25

    def __post_init__(self) -> None:
        for at, text in enumerate(self.allow):
            check_allowed(f"allow[{at}]", text)


class LaneSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[lanes]`: the lanes' names, the most urgent first, and how they share the slots.

    `strict`: a lane goes only when those before it are empty. `weighted`: each claim is shared by `weights`, and what a
    lane leaves free goes to the others. `max_wait`: a lane's first job that has waited longer goes ahead of all.
    `max_depth`: with so many pending jobs a lane takes no more (503).
    """

    order: tuple[str, ...] = LANES
    policy: Literal["strict", "weighted"] = "strict"
    weights: dict[str, Annotated[int, Meta(ge=1, le=1_000_000)]] = msgspec.field(default_factory=lambda: dict(WEIGHTS))
    max_wait: dict[str, Duration] = {}
    max_depth: dict[str, Annotated[int, Meta(ge=1, le=1_000_000_000)]] = {}

    def __post_init__(self) -> None:
        if not 1 <= len(self.order) <= 16:
            raise FieldFault("order", "takes between 1 and 16 lanes")
        for at, name in enumerate(self.order):
            check_name(f"order[{at}]", name)
            if name in self.order[:at]:
                raise FieldFault(f"order[{at}]", f'the lane "{name}" is named twice')
        for field, table in (("max_wait", self.max_wait), ("max_depth", self.max_depth)):
            for name in set(table) - set(self.order):
                raise FieldFault(f"{field}.{name}", f"no such lane; there are: {', '.join(self.order)}")
        for name, wait in self.max_wait.items():
            between(f"max_wait.{name}", wait, "100ms", "30d")
        if self.policy == "weighted" and (lacking := [name for name in self.order if name not in self.weights]):
            raise FieldFault("weights", f"no weight for the lane {lacking[0]}")

    @property
    def shares(self) -> dict[str, int]:
        """The weights that the policy goes by; none for strict order."""
        return self.weights if self.policy == "weighted" else {}

    @property
    def default(self) -> str:
        """The lane of a job that names none: `default` where there is one, else the least urgent."""
        return "default" if "default" in self.order else self.order[-1]


class NoticeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[notices]`: the target that is told, by jobs, of targets that were disabled or have recovered; None: none is."""

    target: str | None = None


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[retention]`: how long, and how many, finished and dead jobs are kept."""

    finished: Duration = Duration(86400)
    finished_max: Count = 100_000
    dead: Duration = Duration(30 * 86400)
    dead_max: Count = 10_000


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is configured. `redis_url` None means the embedded server; `plugins_only` None means every plugin;
    `imports` are the modules whose declared targets there are.

    `otel` are the variables of OpenTelemetry that decide on tracing. `source` is the file's name for messages,
    `variables` those that set a key (`gateway.port`) over it, `directory` the working directory, `secrets` what the
    secrets of targets and triggers are read from.
    """

    plugins: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    plugins_only: tuple[str, ...] | None = None
    redis_url: Secret | None = None
    gateway: GatewaySettings = GatewaySettings()
    egress: EgressSettings = EgressSettings()
    lanes: LaneSettings = LaneSettings()
    retention: RetentionSettings = RetentionSettings()
    notices: NoticeSettings = NoticeSettings()
    targets: dict[str, TargetSettings] = {}
    triggers: dict[str, TriggerSettings] = {}
    schedules: dict[str, ScheduleSettings] = {}
    otel: dict[str, str] = {}
    source: str = "gateway.toml"
    variables: dict[str, str] = {}
    directory: Path = Path()
    secrets: SecretSource = SecretSource()

    def place(self, key: str) -> str:
        """Where a key such as `notices.target` is set, for messages: in a variable, else the file."""
        variable = self.variables.get(key)
        return f"environment: {variable}" if variable else f"{self.source}: {key}"

    @property
    def partitions(self) -> int:
        """The partitions that are configured, else what suits the Redis: 16 on a Cluster, 1 elsewhere."""
        if self.gateway.partitions is not None:
            return self.gateway.partitions
        return parse_redis_url(self.redis_url.reveal()).partitions if self.redis_url is not None else 1
