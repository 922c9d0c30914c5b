"""The registry: every loaded plugin, target, trigger and configured schedule of one process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import structlog

from gateway.errors import ConfigError, NotFound, PluginError
from gateway.executor import Executor
from gateway.jobs import CALLBACK_TARGET, URL_TARGET
from gateway.registry.declared import with_declared
from gateway.registry.discovery import discover
from gateway.registry.listeners import Listeners
from gateway.registry.loading import LoadedPlugin, Offers, collect, describe, register
from gateway.registry.schedules import make_file_schedule
from gateway.registry.sources import make_trigger
from gateway.registry.targets import (
    Target,
    builtin_targets,
    callback_config,
    check_runnable,
    make_target,
    notices_target,
    url_config,
)
from gateway.schedules import Schedule
from gateway.secret import Secret
from gateway.settings import SecretSource, Settings, TargetSettings, TriggerSettings
from gateway.spelling import known_names
from gateway.triggers import Trigger
from gateway.verifier import Verifier

START_S = 30.0
CLOSE_S = 10.0

log: structlog.stdlib.BoundLogger = structlog.get_logger("gateway.registry")


class Registry:
    """What `Registry.build(settings)` loads. A dispatcher also calls `start()`, and `aclose()` at its end."""

    def __init__(
        self, settings: Settings, *, plugins: tuple[LoadedPlugin, ...], offers: Offers, listeners: Listeners
    ) -> None:
        self.plugins = plugins
        self.executors: Mapping[str, Executor[Any]] = _values(offers.executors)
        self.verifiers: Mapping[str, type[Verifier[Any]]] = _values(offers.verifiers)
        self.listeners = listeners
        self.source = settings.source
        self._lanes = settings.lanes.order
        self._per_target = settings.egress.per_target
        self._configured = {
            name: self.make_target(name, each, settings.secrets) for name, each in settings.targets.items()
        }
        self._targets = dict(self._configured)
        self.targets: Mapping[str, Target] = MappingProxyType(self._targets)
        self.triggers: Mapping[str, Trigger] = MappingProxyType(
            {name: self.make_trigger(name, each, settings.secrets) for name, each in settings.triggers.items()}
        )
        self.schedules: Mapping[str, Schedule] = MappingProxyType(
            {
                name: make_file_schedule(name, each, targets=self.targets, lanes=self._lanes)
                for name, each in settings.schedules.items()
            }
        )
        self.notices = self._notices(settings)
        self._builtin = builtin_targets(self.executors, per_host=settings.egress.per_host)
        self._started: list[Executor[Any]] = []

    @classmethod
    def build(cls, settings: Settings, *, executors: Sequence[Executor[Any]] = ()) -> Registry:
        """Loads the plugins, imports what declares targets, resolves all that is configured; starts nothing.

        Raises PluginError, which names the plugin, or ConfigError, which names the place. Puts the working
        directory on the import path. `executors` are there beside those of the plugins, or instead of them.
        """
        settings = with_declared(settings)
        found = discover(settings)
        calls = register(found)
        offers = collect(found, calls, settings)
        for executor in executors:
            offers.add(executor)
        listeners = Listeners(job_event=calls["job_event"], retry_delay=calls["retry_delay"])
        return cls(settings, plugins=describe(found, calls, offers), offers=offers, listeners=listeners)

    def make_target(self, name: str, settings: TargetSettings, secrets: SecretSource | None = None) -> Target:
        """A target of this registry's executors and lanes, without adding it; raises ConfigError."""
        at_once = self._per_target
        return make_target(name, settings, self.executors, lanes=self._lanes, secrets=secrets, at_once=at_once)

    def is_configured(self, name: str) -> bool:
        """Whether the configuration file, or the code, defines the target."""
        return name in self._configured

    def replace_registered(self, targets: Mapping[str, Target]) -> None:
        """Makes these the targets beside the configured ones; `targets`, wherever it was handed to, shows them."""
        for name in self._targets.keys() - self._configured.keys() - targets.keys():
            del self._targets[name]
        self._targets.update({name: target for name, target in targets.items() if name not in self._configured})

    def make_trigger(self, name: str, settings: TriggerSettings, secrets: SecretSource | None = None) -> Trigger:
        """A trigger of this registry's verifiers, targets and lanes, without adding it; raises ConfigError."""
        return make_trigger(name, settings, self.verifiers, targets=self.targets, lanes=self._lanes, secrets=secrets)

    def submittable(self, name: str) -> Target:
        """The configured target of that name, which jobs may be submitted to; raises NotFound."""
        found = self.targets.get(name)
        if found is None:
            raise NotFound(f"no target named {name[:64]!r}; known: {known_names(self.targets)}")
        return found

    def target(self, name: str) -> Target:
        """The target that a claimed job names, configured or built in; raises NotFound."""
        return self.targets.get(name) or self._builtin.get(name) or self.submittable(name)

    @property
    def flows(self) -> dict[str, dict[str, int]]:
        """The targets whose jobs wait in flows, with their limits."""
        targets = self._builtin | dict(self.targets)
        return {name: flow for name, target in targets.items() if (flow := target.flow) is not None}

    def callback_config(self, url: str, secret: Secret | str | None = None) -> Any:
        """The http executor's config for one callback; ConfigError (place `callback…`) if it cannot be."""
        return callback_config(self._builtin[CALLBACK_TARGET].executor, url, secret)

    @property
    def url_target(self) -> Target:
        """The built-in target of jobs with a URL of their own."""
        return self._builtin[URL_TARGET]

    def url_config(self, url: str) -> Any:
        """The http executor's config for one such job; ConfigError if it cannot be."""
        return url_config(self.url_target.executor, url)

    def check(self) -> tuple[ConfigError, ...]:
        """Why targets could not run here (a module that does not import), as far as their executors can tell."""
        faults = []
        for target in self.targets.values():
            try:
                check_runnable(target)
            except ConfigError as exc:
                faults.append(exc)
        return tuple(faults)

    def trouble(self) -> str:
        """What keeps executors from running attempts as they should; empty: nothing."""
        return "; ".join(trouble for executor in self.executors.values() if (trouble := _trouble(executor)))

    async def start(self) -> None:
        """Checks every target and starts every executor, or none; raises ConfigError or PluginError."""
        for target in self.targets.values():
            check_runnable(target)
        try:
            for executor in self.executors.values():
                await _start(executor)
                self._started.append(executor)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Closes the executors that were started, last first; one that fails is logged."""
        while self._started:
            executor = self._started.pop()
            try:
                async with asyncio.timeout(CLOSE_S):
                    await executor.aclose()
            except Exception as exc:
                log.error("executor did not close", executor=executor.name, exc_info=exc)

    def _notices(self, settings: Settings) -> tuple[str, str, int] | None:
        """Target, lane and attempts of the jobs that tell of disabled targets; None if nobody is to be told."""
        name = notices_target(settings)
        if name is None:
            return None
        target = self._configured[name]
        return name, target.lane or settings.lanes.default, target.retry.max_attempts


async def _start(executor: Executor[Any]) -> None:
    try:
        async with asyncio.timeout(START_S):
            await executor.start()
    except (Exception, SystemExit) as exc:
        raise PluginError(f"executor {executor.name}", f"did not start: {type(exc).__name__}: {exc}") from exc


def _trouble(executor: Executor[Any]) -> str:
    try:
        return executor.trouble()
    except Exception as exc:  # a plugin's own code: it is in trouble, then
        return f"executor {executor.name}: {type(exc).__name__}: {exc}"


def _values(offers: Mapping[str, tuple[str, Any]]) -> Mapping[str, Any]:
    return MappingProxyType({name: offer for name, (_, offer) in offers.items()})
