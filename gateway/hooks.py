"""The plugin hooks (pluggy): few, synchronous, called at start-up or through a guarded notifier."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pluggy

from gateway.events import JobEvent
from gateway.executor import Executor, Job
from gateway.settings import Settings
from gateway.verifier import Verifier

PROJECT = "gateway"
PLUGIN_API = 1
"""Raised when a hook changes in a way that an existing plugin would notice."""

API_ATTRIBUTE = "GATEWAY_PLUGIN_API"
"""What a plugin may set to the PLUGIN_API that it was written for; a gateway with an older one refuses it by name."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class HookSpecs:
    """Every hook there is; an implementation may leave out arguments that it does not need."""

    @hookspec
    def register_executors(self, settings: Settings) -> Iterable[Executor[Any]]:  # type: ignore[empty-body]
        """Executors to offer, called once at start-up; a target names one by its `name`."""

    @hookspec
    def register_verifiers(self, settings: Settings) -> Iterable[type[Verifier[Any]]]:  # type: ignore[empty-body]
        """Verifier classes to offer, called once at start-up; each trigger makes its own instance."""

    @hookspec(firstresult=True)
    def retry_delay(self, job: Job, failure: BaseException) -> float | None:
        """Seconds before the next attempt, or None to leave it to the next plugin and the target's policy."""

    @hookspec
    def job_event(self, event: JobEvent) -> None:
        """Told of everything that happens to a job; must not block. A failing one never silences another."""
