"""Compose files as Compose reads them: variables filled in, overlays merged, profiles chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.documents import ROOT

BASE = ROOT / "docker-compose.yml"
OVERLAYS: dict[str, tuple[Path, ...]] = {
    "standalone": (BASE,),
    "ha": (BASE, ROOT / "deploy" / "compose.ha.yml"),
    "cluster": (BASE, ROOT / "deploy" / "compose.cluster.yml"),
}
KEY = "gwk_me_0123456789abcdef0123456789abcdef"

_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?:(:?[-?])([^}]*))?\})")
_JOINED = ("ports", "volumes", "networks", "expose", "tmpfs", "cap_drop", "security_opt")
"""Lists that an overlay adds to; any other list (`command`) it replaces."""


class MissingVariable(Exception):
    """`${NAME:?what it says}` of a variable that is not set."""


def load(
    files: Sequence[Path], *, profiles: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The project that `docker compose -f … --profile …` would run with these variables."""
    variables = {"GATEWAY_API_KEY": KEY} if environ is None else environ
    whole: dict[str, Any] = {}
    for file in files:
        whole = _merge(whole, _fill(yaml.safe_load(file.read_text()), variables))
    services = whole["services"]
    whole["services"] = {
        name: service
        for name, service in services.items()
        if not service.get("profiles") or set(service["profiles"]) & set(profiles)
    }
    return {name: value for name, value in whole.items() if not name.startswith("x-")}


def profiles_of(files: Sequence[Path]) -> set[str]:
    """Every profile that the files name."""
    services = [service for file in files for service in yaml.safe_load(file.read_text())["services"].values()]
    return {profile for service in services for profile in service.get("profiles", [])}


def _merge(under: Any, over: Any, key: str = "") -> Any:
    if key in ("networks", "depends_on"):
        under, over = _as_mapping(under), _as_mapping(over)
    if isinstance(under, dict) and isinstance(over, dict):
        return {
            name: _merge(under[name], over[name], name) if name in under and name in over else (over | under)[name]
            for name in [*under, *(name for name in over if name not in under)]
        }
    if isinstance(under, list) and isinstance(over, list) and key in _JOINED:
        return [*under, *(each for each in over if each not in under)]
    return over


def _as_mapping(value: Any) -> Any:
    return {name: {} for name in value} if isinstance(value, list) else value


def _fill(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _fill(inner, variables) for name, inner in value.items()}
    if isinstance(value, list):
        return [_fill(inner, variables) for inner in value]
    return _VARIABLE.sub(lambda found: _variable(found, variables), value) if isinstance(value, str) else value


def _variable(found: re.Match[str], variables: Mapping[str, str]) -> str:
    name, operator, text = found[1], found[2] or "", found[3] or ""
    if name is None:
        return "$"
    value = variables.get(name)
    if value or (value is not None and not operator.startswith(":")):
        return value
    if operator.endswith("?"):
        raise MissingVariable(f"{name} {text}")
    return text if operator.endswith("-") else ""
