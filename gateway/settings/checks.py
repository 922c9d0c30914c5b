"""What a setting must satisfy beside its type."""

from __future__ import annotations

from urllib.parse import urlsplit

from gateway.apikeys import admin_key
from gateway.durations import Duration, parse_duration
from gateway.egress.addresses import parse_allow
from gateway.keys import NAME
from gateway.reception import parse_networks
from gateway.secret import Secret
from gateway.signing import SigningKey

NAME_RULE = "use up to 64 letters, digits, dots, dashes and underscores, a letter or digit first"


class FieldFault(ValueError):
    """What a model's `__post_init__` raises to name the field that is wrong; msgspec knows only the struct."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field


def between(field: str, value: Duration, least: str, most: str) -> None:
    if not parse_duration(least) <= value <= parse_duration(most):
        raise FieldFault(field, f"must lie between {least} and {most}")


def check_name(field: str, text: str) -> None:
    if NAME.match(text) is None:
        raise FieldFault(field, f"{text!r} is not a name; {NAME_RULE}")


def check_allowed(field: str, text: str) -> None:
    try:
        parse_allow([text])
    except ValueError as exc:
        raise FieldFault(field, str(exc)) from exc


def check_networks(field: str, texts: tuple[str, ...]) -> None:
    try:
        parse_networks(texts)
    except ValueError as exc:
        raise FieldFault(field, str(exc)) from exc


def check_host(field: str, text: str) -> None:
    mend = 'write an address, such as "127.0.0.1" or "0.0.0.0"'
    if not text:
        raise FieldFault(field, f"is empty; {mend}")
    try:
        text.encode("idna")
    except UnicodeError as exc:
        raise FieldFault(field, f"not an address; {mend}") from exc


def check_api_key(field: str, key: Secret) -> None:
    try:
        admin_key(key.reveal())
    except ValueError as exc:
        raise FieldFault(field, str(exc)) from exc


def check_public_url(text: str) -> None:
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or not text.isprintable() or any(mark in text for mark in "?#@ "):
        raise FieldFault("public_url", 'not a URL of a gateway; write "https://hooks.example", with a path if need be')


def check_signing_key(field: str, key: Secret) -> None:
    try:
        SigningKey.parse(key.reveal())
    except ValueError as exc:
        raise FieldFault(field, str(exc)) from exc
