"""Configuration: the environment over `gateway.toml`, read once into frozen values (docs/configuration.md)."""

from __future__ import annotations

from gateway.settings.checks import FieldFault
from gateway.settings.decoding import decode, field_names, join_place
from gateway.settings.loading import load
from gateway.settings.model import (
    EgressSettings,
    GatewaySettings,
    LaneSettings,
    RetentionSettings,
    Settings,
)
from gateway.settings.secrets import ConfigFile, SecretSource
from gateway.settings.tables import (
    TARGET_KEYS,
    TRIGGER_KEYS,
    RouteSettings,
    ScheduleSettings,
    TargetCallback,
    TargetSettings,
    TriggerSettings,
    read_schedule,
    read_target,
    read_trigger,
)

__all__ = [
    "TARGET_KEYS",
    "TRIGGER_KEYS",
    "ConfigFile",
    "EgressSettings",
    "FieldFault",
    "GatewaySettings",
    "LaneSettings",
    "RetentionSettings",
    "RouteSettings",
    "ScheduleSettings",
    "SecretSource",
    "Settings",
    "TargetCallback",
    "TargetSettings",
    "TriggerSettings",
    "decode",
    "field_names",
    "join_place",
    "load",
    "read_schedule",
    "read_target",
    "read_trigger",
]
