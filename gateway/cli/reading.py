"""What commands are given to read: JSON on the command line, in a file or on standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import typer

from gateway.client.bodies import JobBody
from gateway.durations import parse_duration

_Fields = dict[str, msgspec.Raw]


def read_json(text: str | None) -> msgspec.Raw | None:
    """JSON as it is written; `-` is standard input, `@FILE` a file. Raises BadParameter."""
    if text is None:
        return None
    raw = _input(text.removeprefix("@")) if text == "-" or text.startswith("@") else text.encode()
    try:
        msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise typer.BadParameter(f"not JSON: {error}; for text write '\"…\"'") from error
    return msgspec.Raw(raw.strip())


def read_object(text: str) -> dict[str, msgspec.Raw]:
    """A JSON object, its values as they are written; as `read_json`. Raises BadParameter."""
    try:
        return msgspec.json.decode(read_json(text) or b"{}", type=_Fields)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(f"not a JSON object: {error}") from error


def read_jobs(name: str) -> Iterator[JobBody]:
    """The jobs of a JSON array or of NDJSON, payloads byte for byte; `-` is standard input. Raises BadParameter."""
    raw = _input(name)
    try:
        if raw.lstrip()[:1] == b"[":
            yield from cast("list[JobBody]", msgspec.json.decode(raw, type=list[_Fields]))
            return
    except (msgspec.MsgspecError, RecursionError) as error:
        raise typer.BadParameter(f"{name}: not an array of jobs: {error}") from error
    for at, line in enumerate(raw.splitlines(), 1):
        if line.strip():
            try:
                yield cast("JobBody", msgspec.json.decode(line, type=_Fields))
            except (msgspec.MsgspecError, RecursionError) as error:
                raise typer.BadParameter(f"{name}: line {at} is not a job: {error}") from error


def read_duration(text: str | None) -> str | float | None:
    """A duration of the command line as the API takes it, where seconds are a number."""
    if text is not None and text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    return text


def read_seconds(text: str | None, default_s: float) -> float:
    """A duration of the command line in seconds. Raises BadParameter."""
    if text is None:
        return default_s
    try:
        return float(parse_duration(read_duration(text)))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def options_of(**given: Any) -> Any:
    """What was given, without what was not."""
    return {name: value for name, value in given.items() if value not in (None, [], ())}


def _input(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read()
        return Path(name).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{name}: cannot be read: {error.strerror}") from error
