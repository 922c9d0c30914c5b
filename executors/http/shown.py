"""What the API shows of a target's config: which secrets there are, and never what they are."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway import Duration, Secret

from .config import HttpConfig

SET: dict[str, Any] = {"set": True}
"""Stands for a value that is kept back."""


def describe(config: HttpConfig) -> dict[str, Any]:
    """The config without its defaults; secrets, the values of headers and the URL's query are kept back."""
    shown: dict[str, Any] = {}
    for field in msgspec.structs.fields(HttpConfig):
        value = getattr(config, field.name)
        if value != field.default and value not in (None, {}, ()):
            shown[field.encode_name] = _shown(value)
    shown["url"] = without_query(config.url)
    if config.headers:
        shown["headers"] = dict.fromkeys(config.headers, SET)
    return shown


def without_query(url: str) -> str:
    """The URL with its query as an ellipsis: tokens are put there."""
    base, mark, _ = url.partition("?")
    return f"{base}?…" if mark else url


def _shown(value: Any) -> Any:
    if isinstance(value, Secret):
        return SET
    if isinstance(value, Duration):
        return float(value)
    if isinstance(value, msgspec.Struct):
        fields = {name: _shown(each) for name, each in msgspec.structs.asdict(value).items() if each is not None}
        tag = value.__struct_config__.tag
        return {"type": tag} | fields if tag else fields
    if isinstance(value, tuple):
        return [_shown(each) for each in value]
    return value
