"""Placeholder."""

from __future__ import annotations


class Settings:
    """Placeholder."""
