"""event-gateway: jobs and webhooks into Redis priority lanes, run by executor plugins.

Everything that a plugin author needs is importable from here. A name is loaded when it is first asked for: all of them
take a quarter of a second, and most programs want a few.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway import processes, redaction, results, schemes, signing
    from gateway.context import Context
    from gateway.declared import lifespan, lifespans_in, target
    from gateway.durations import Duration
    from gateway.egress.rules import check_headers, check_url
    from gateway.errors import AttemptError, ConfigError, EgressDenied, Fatal, GatewayError, HttpError, Rejected, Retry
    from gateway.events import JobEvent
    from gateway.executor import Attempt, Deferred, Executor, HttpClient, HttpResponse, Job, Payload, Result
    from gateway.hooks import PLUGIN_API, hookimpl
    from gateway.jobs import JobRequest
    from gateway.pulse import Pulse
    from gateway.secret import Secret
    from gateway.settings import ConfigFile, FieldFault, Settings
    from gateway.verifier import Delivery, HandshakeResponse, Verifier, WebhookRequest

__version__ = "0.1.0"

__all__ = [
    "PLUGIN_API",
    "Attempt",
    "AttemptError",
    "ConfigError",
    "ConfigFile",
    "Context",
    "Deferred",
    "Delivery",
    "Duration",
    "EgressDenied",
    "Executor",
    "Fatal",
    "FieldFault",
    "GatewayError",
    "HandshakeResponse",
    "HttpClient",
    "HttpError",
    "HttpResponse",
    "Job",
    "JobEvent",
    "JobRequest",
    "Payload",
    "Pulse",
    "Rejected",
    "Result",
    "Retry",
    "Secret",
    "Settings",
    "Verifier",
    "WebhookRequest",
    "check_headers",
    "check_url",
    "hookimpl",
    "lifespan",
    "lifespans_in",
    "processes",
    "redaction",
    "results",
    "schemes",
    "signing",
    "target",
]

_MODULES = ("processes", "redaction", "results", "schemes", "signing")
_NAMES = {
    "gateway.context": "Context",
    "gateway.declared": "lifespan lifespans_in target",
    "gateway.durations": "Duration",
    "gateway.egress.rules": "check_headers check_url",
    "gateway.errors": "AttemptError ConfigError EgressDenied Fatal GatewayError HttpError Rejected Retry",
    "gateway.events": "JobEvent",
    "gateway.executor": "Attempt Deferred Executor HttpClient HttpResponse Job Payload Result",
    "gateway.hooks": "PLUGIN_API hookimpl",
    "gateway.jobs": "JobRequest",
    "gateway.pulse": "Pulse",
    "gateway.secret": "Secret",
    "gateway.settings": "ConfigFile FieldFault Settings",
    "gateway.verifier": "Delivery HandshakeResponse Verifier WebhookRequest",
}
"""What the imports above say, for those who do not read types; a test compares them."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"gateway.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'gateway' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
