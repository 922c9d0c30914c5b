"""Environment variables: `GATEWAY_<SECTION>_<KEY>` for every key of a section, and a few names of their own."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

import msgspec

from gateway.durations import Duration
from gateway.errors import ConfigError
from gateway.redis_url import parse_redis_url
from gateway.secret import Secret
from gateway.settings.decoding import concrete_types, field_names
from gateway.settings.model import EgressSettings, GatewaySettings, LaneSettings, NoticeSettings, RetentionSettings

SECTIONS: dict[str, type[msgspec.Struct]] = {
    "gateway": GatewaySettings,
    "egress": EgressSettings,
    "lanes": LaneSettings,
    "retention": RetentionSettings,
    "notices": NoticeSettings,
}
CONFIG, IMPORTS = "GATEWAY_CONFIG", "GATEWAY_IMPORTS"
PLUGINS, REDIS_URL = "GATEWAY_PLUGINS", "GATEWAY_REDIS_URL"
URL = "GATEWAY_URL"
"""The gateway that commands speak to; it sets nothing here."""

OTEL = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_SDK_DISABLED",
    "OTEL_SERVICE_NAME",
    "OTEL_TRACES_EXPORTER",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
)
"""What decides on tracing; the SDK reads the rest of its standard variables by itself."""

SHORT_NAMES = {
    "PORT": ("gateway", "port"),
    "GATEWAY_API_KEY": ("gateway", "api_key"),
    "GATEWAY_SIGNING_KEY": ("gateway", "signing_key"),
}
"""Other names of a key; the full name wins where both are set."""

_SERVICE_LINK = re.compile(
    r"GATEWAY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)\Z", re.ASCII
)
"""What Kubernetes puts into every container's environment for a Service whose name begins with `gateway`."""

_PASSED_ON = re.compile(r"GATEWAY_(SUPERVISOR_PID|WORKERS_FOLDER|JOB_\w+)\Z", re.ASCII)
"""What our own processes set for those that they start: a supervisor, and the command executor."""

_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://")


@dataclass(frozen=True, slots=True)
class Override:
    """One key's value from the environment, and the variable that it came from."""

    variable: str
    value: object


def full_name(section: str, key: str) -> str:
    """The variable of a key: `GATEWAY_<SECTION>_<KEY>`."""
    return f"GATEWAY_{section}_{key}".upper()


def overrides(environ: Mapping[str, str], named: Collection[str]) -> dict[tuple[str, str], Override]:
    """What the environment sets, by section and key; an empty variable counts as not set.

    `named` are the variables that the file's secrets refer to: those may begin with `GATEWAY_` too. Any other
    such variable that is not ours raises ConfigError, for it is most likely misspelt.
    """
    names = {full_name(section, key): (section, key) for section in SECTIONS for key in field_names(SECTIONS[section])}
    found = {}
    for variable, place in (SHORT_NAMES | names).items():
        text = environ.get(variable, "").strip()
        if text and not _is_service_link(variable, text):
            found[place] = Override(variable, _value(place, text, variable))
    for variable, text in environ.items():
        ours = variable.startswith("GATEWAY_") and variable != URL and not _PASSED_ON.match(variable)
        if ours and variable not in named and not _is_service_link(variable, text):
            _check_known(variable, [CONFIG, IMPORTS, PLUGINS, REDIS_URL, *SHORT_NAMES, *names])
    return found


def plugins_only(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """The plugins that `GATEWAY_PLUGINS` lets load, None for all; `","` is the empty list."""
    text = environ.get(PLUGINS, "").strip()
    return tuple(_items(text)) if text else None


def imports(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The modules that `GATEWAY_IMPORTS` adds to those of the file."""
    found = tuple(_items(environ.get(IMPORTS, "")))
    for name in found:
        if not is_module(name):
            raise ConfigError(f"environment: {IMPORTS}", f'{name!r} is not a module; write "package.module"')
    return found


def is_module(name: str) -> bool:
    """Whether a text can name a module."""
    return all(part.isidentifier() for part in name.split("."))


def redis_url(environ: Mapping[str, str]) -> Secret | None:
    """`GATEWAY_REDIS_URL`, else `REDIS_URL`, else None; a Secret, since a password may be in it."""
    variable = redis_variable(environ)
    if variable is None:
        return None
    text = environ[variable].strip()
    try:
        parse_redis_url(text)
    except ValueError as exc:
        raise ConfigError(f"environment: {variable}", str(exc)) from None
    return Secret(text)


def redis_variable(environ: Mapping[str, str]) -> str | None:
    """The variable that says where Redis is, None if none does."""
    return next((name for name in (REDIS_URL, "REDIS_URL") if environ.get(name, "").strip()), None)


def _value(place: tuple[str, str], text: str, variable: str) -> object:
    section, key = place
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(SECTIONS[section])}
    kind: Any = next(concrete_types(fields[key]))
    if get_origin(kind) is tuple:
        return _items(text)
    if get_origin(kind) is dict:
        return _pairs(text, next(concrete_types(get_args(kind)[1])), variable)
    if kind is int:
        return _whole_number(text, variable)
    if kind is bool:
        return _truth(text, variable)
    if kind is Duration and re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return float(text)
    return text


def _pairs(text: str, kind: Any, variable: str) -> dict[str, object]:
    """`critical=70,low=10` as a table."""
    pairs: dict[str, object] = {}
    for item in _items(text):
        name, sign, value = item.partition("=")
        if not sign:
            raise ConfigError(f"environment: {variable}", f"expected name=value,…, got {item!r}")
        pairs[name.strip()] = _whole_number(value.strip(), variable) if kind is int else value.strip()
    return pairs


def _whole_number(text: str, variable: str) -> int:
    if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) is None:
        raise ConfigError(f"environment: {variable}", f"expected int, got {text!r}")
    return int(text)


def _truth(text: str, variable: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"environment: {variable}", f"expected true or false, got {text!r}")
    return text.lower() == "true"


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _is_service_link(variable: str, text: str) -> bool:
    if _SERVICE_LINK.match(variable):
        return True
    return variable.endswith("_PORT") and _SERVICE_URL.match(text) is not None


def _check_known(variable: str, known: list[str]) -> None:
    if variable in known:
        return
    place = f"environment: {variable}"
    if variable.startswith(("GATEWAY_TARGETS_", "GATEWAY_TRIGGERS_", "GATEWAY_SCHEDULES_")):
        detail = "targets, triggers and schedules are set in gateway.toml or over the API, not by variables"
        raise ConfigError(place, detail)
    short = {_without_prefix(name): name for name in reversed(known)}
    near = difflib.get_close_matches(_without_prefix(variable), short, n=1, cutoff=0.8)
    mend = f"did you mean {short[near[0]]}?" if near else "every key is GATEWAY_<SECTION>_<KEY>."
    raise ConfigError(place, f"unknown variable; {mend} Unset it, or rename it if it is not meant for the gateway")


def _without_prefix(variable: str) -> str:
    """What is left to compare: the prefix, once or twice, would make all names look alike."""
    return variable.removeprefix("GATEWAY_").removeprefix("GATEWAY_")
