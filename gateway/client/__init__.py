"""For programs that use a gateway from outside."""

from __future__ import annotations

from gateway.client.callbacks import verify_callback

__all__ = ["verify_callback"]
