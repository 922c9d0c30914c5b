"""What is no fault of a configuration, and will fail for certain as it is."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from gateway.egress.addresses import Allowed, check_address, parse_allow
from gateway.errors import EgressDenied
from gateway.registry import Registry
from gateway.settings import Settings


def cautions(settings: Settings, registry: Registry) -> Iterator[str]:
    """Each with its place and its mend; the configuration has no faults."""
    for name, trigger in registry.triggers.items():
        if warning := trigger.warning(settings.gateway.public_url):
            yield f"triggers.{name}: {warning}"
    allowed = parse_allow(settings.egress.allow)
    for name, target in settings.targets.items():
        url = target.config.get("url") if target.executor == "http" else None
        if isinstance(url, str) and (denied := _denied(url, allowed)):
            yield f"targets.{name}: every call will be refused: {denied}"
        if target.callback is not None and (denied := _denied(target.callback.url, allowed)):
            yield f"targets.{name}.callback: every callback will be refused: {denied}"


def _denied(url: str, allowed: Allowed) -> str:
    """Why no call reaches it; empty where one may."""
    try:
        check_address(urlsplit(url).hostname or "", allowed)
    except EgressDenied as error:
        return str(error)
    except ValueError:
        pass  # a host name: what it resolves to is known when it is called
    return ""
