"""The HTTP side: takes jobs and deliveries in, and answers what became of them (docs/api.md)."""

from __future__ import annotations

from gateway.api.app import create_app

__all__ = ["create_app"]
