"""event-gateway: jobs and webhooks into Redis priority lanes, run by executor plugins.

Everything that a plugin author needs is importable from here.
"""

from __future__ import annotations

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
