"""The only code that talks to Redis: connections, the scripts, and what is made of their replies."""

from __future__ import annotations

from gateway.store.inspection import Inspection
from gateway.store.store import Store
from gateway.store.worker import ClaimRequest, Exchange, RetentionLimits, Worker

__all__ = ["ClaimRequest", "Exchange", "Inspection", "RetentionLimits", "Store", "Worker"]
