"""The plugins that are loaded, and what the configuration makes of them: executors, targets, triggers."""

from __future__ import annotations

from gateway.registry.loading import LoadedPlugin, survey
from gateway.registry.registry import Registry
from gateway.registry.targets import PerJob, Target

__all__ = ["LoadedPlugin", "PerJob", "Registry", "Target", "survey"]
