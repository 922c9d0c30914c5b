"""What is no fault of a configuration, and will fail for certain as it is."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from gateway.egress.addresses import check_address, parse_allow
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
        if not isinstance(url, str):
            continue
        try:
            check_address(urlsplit(url).hostname or "", allowed)
        except EgressDenied as error:
            yield f"targets.{name}: every call will be refused: {error}"
        except ValueError:
            continue  # a host name: what it resolves to is known when it is called
