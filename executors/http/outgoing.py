"""What an attempt sends: method, URL, headers and body, all the same at every attempt of a job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote, urlencode

import orjson

from gateway import Attempt, FieldFault, JobRequest, __version__, check_headers, check_url

from .config import HttpConfig

USER_AGENT = f"event-gateway/{__version__}"
METHODS = ("POST", "PUT", "PATCH", "DELETE", "GET")
MAX_QUERY = 64
MAX_DECODED = 8
"""Times that a path is decoded to look for dots; one that is encoded oftener is refused."""

_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)+\Z", re.ASCII)
_DOTS = re.compile(r"(?:^|[/\\])\s*\.{1,2}\s*(?:[;/\\]|\Z)")
_HIDDEN = re.compile(r"(?i)%(?:2f|5c|00|0a|0d)")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request before it is signed; `headers` without those of the attempt."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def check_request(config: HttpConfig, request: JobRequest) -> None:
    """Raises FieldFault unless the target lets a job set these of its request, and to this."""
    for field in ("headers", "method", "path", "query"):
        if getattr(request, field) and field not in config.job_may:
            raise FieldFault(field, f"this target takes no {field} from its jobs: its job_may does not name it")
    if request.method is not None and request.method not in METHODS:
        raise FieldFault("method", f"is none of: {', '.join(METHODS)}")
    if request.method == "GET" and config.body != "raw":
        raise FieldFault("method", f'GET sends no body, and this target\'s body = "{config.body}"')
    _check_headers(config, request)
    url_of(config, request)


def _check_headers(config: HttpConfig, request: JobRequest) -> None:
    try:
        check_headers(request.headers)
    except ValueError as exc:
        raise FieldFault("headers", str(exc)) from exc
    taken = {name.lower() for name in config.headers} | {"authorization"}
    if config.auth is not None:
        taken.add(config.auth.header_name)
    for name in request.headers:
        binary = config.body == "cloudevents-binary" and name.lower().startswith("ce-")
        if binary or name.lower() in taken:
            raise FieldFault("headers", f"header {name!r} is set by the target")


def url_of(config: HttpConfig, request: JobRequest | None) -> str:
    """The URL of one job: its path below the target's, its query behind the target's. Raises FieldFault."""
    if request is None or not (request.path or request.query):
        return config.url
    base, _, query = config.url.partition("?")
    if request.path:
        _check_path(request.path)
        base = base.rstrip("/") + request.path
    if request.query:
        if len(request.query) > MAX_QUERY:
            raise FieldFault("query", f"has more than {MAX_QUERY} parameters")
        added = urlencode(list(request.query.items()), quote_via=quote)
        query = f"{query}&{added}" if query else added
    url = f"{base}?{query}" if query else base
    try:
        check_url(url)
    except ValueError as exc:
        raise FieldFault("path" if request.path else "query", str(exc)) from exc
    return url


def _check_path(path: str) -> None:
    if _PATH.match(path) is None or _HIDDEN.search(path):
        raise FieldFault("path", 'not a path; write "/orders/7", other characters percent-encoded, and no ? or #')
    if _leads_out(path):
        raise FieldFault("path", "holds a . or .. segment; a job stays below its target's path")


def _leads_out(path: str) -> bool:
    """May a server read the path as one with a segment of dots? Those behind proxies decode it again, and what stands
    behind a `;` in a segment is cut off by many (RFC 3986, 3.3 leaves it to them)."""
    for _ in range(MAX_DECODED):
        if _DOTS.search(path):
            return True
        decoded = unquote(path)
        if decoded == path:
            return False
        path = decoded
    return True


def outgoing(attempt: Attempt[HttpConfig]) -> Outgoing:
    """The request of an attempt. Raises FieldFault where the job sets what its target does not allow (any more)."""
    config, request = attempt.config, attempt.job.request
    if request is not None:
        check_request(config, request)
    method = (request and request.method) or config.method
    body, kinds = (b"", {}) if method == "GET" else _body(attempt)
    own = dict(request.headers) if request else {}
    given = {name.lower(): (name, value) for name, value in (config.headers | own).items()}
    headers = [pair for pair in kinds.items() if pair[0] not in given or pair[0].startswith("ce-")]
    headers += given.values()
    if "user-agent" not in given:
        headers.append(("user-agent", USER_AGENT))
    if config.auth is not None:
        headers.append(config.auth.header(body))
    return Outgoing(method, url_of(config, request), tuple(headers), body)


def _body(attempt: Attempt[HttpConfig]) -> tuple[bytes, dict[str, str]]:
    """The body, and the headers that say what it is."""
    raw = attempt.payload.raw
    match attempt.config.body:
        case "envelope":
            return _envelope(attempt), {"content-type": "application/json"}
        case "cloudevents-structured":
            event = _event(attempt) | {"datacontenttype": "application/json", "data": orjson.Fragment(raw)}
            return orjson.dumps(event), {"content-type": "application/cloudevents+json; charset=utf-8"}
        case "cloudevents-binary":
            # percent-encoded as the HTTP binding asks (CloudEvents 1.0.2, HTTP, 3.1.3.2)
            attributes = {f"ce-{name}": quote(value, safe=_CE_SAFE) for name, value in _event(attempt).items()}
            return raw, {"content-type": "application/json", **attributes}
    return raw, {"content-type": "application/json"}


_CE_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


def _envelope(attempt: Attempt[HttpConfig]) -> bytes:
    job = attempt.job
    data: dict[str, Any] = {"job_id": job.job_id, "target": job.target}
    if job.key:
        data["key"] = job.key
    data |= {"tags": job.tags, "payload": orjson.Fragment(attempt.payload.raw)}
    return orjson.dumps({"type": attempt.config.event_type, "timestamp": _created(attempt), "data": data})


def _event(attempt: Attempt[HttpConfig]) -> dict[str, Any]:
    """The attributes of the CloudEvent (1.0.2) that a job is; its id is the job's, so a repeat is the same event."""
    job, config = attempt.job, attempt.config
    event = {
        "specversion": "1.0",
        "id": job.job_id,
        "source": config.event_source or f"/targets/{job.target}",
        "type": config.event_type,
        "time": _created(attempt),
    }
    return event | ({"subject": job.key} if job.key else {})


def _created(attempt: Attempt[HttpConfig]) -> str:
    seconds, milliseconds = divmod(attempt.job.created_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
