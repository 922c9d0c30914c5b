"""What a delivery says, as routes see it: JSON, a form, or the events of a CloudEvents request, each with its bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Collection
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
import orjson

from gateway.errors import InvalidRequest, Rejected
from gateway.expressions import ROOTS
from gateway.nesting import MAX_DEPTH, too_deep
from gateway.schemes.bodies import Form, looks_like_form, read_form
from gateway.schemes.multipart import read_multipart
from gateway.verifier import Delivery, WebhookRequest
from gateway.wellformed import NumberTooLarge, is_json, mend

ContentKind = Literal["json", "form", "cloudevents"]

MAX_EVENTS = 2000
"""Events of a batch, and items of an array: each is a job, and all of them are one call of a script."""

_NO_DATA = b"null"
_JSON_TYPE = re.compile(r"\s*[^/;\s]+/([^;\s]*\+)?json\s*(;|\Z)", re.IGNORECASE)
_FORMATS = "application/cloudevents"
_STRUCTURED = "application/cloudevents+json"
_BATCH = "application/cloudevents-batch+json"


class Content(msgspec.Struct, frozen=True):
    """One event: `raw` are its bytes, `is_json` whether executors can parse them (orjson).

    `identity` is what a repeat is recognised by; `attributes` are those of a CloudEvent, as headers.
    """

    raw: bytes
    is_json: bool
    identity: str | None
    form: Form = ()
    attributes: dict[str, str] = {}

    def value(self) -> Any:
        """What the bytes say; parsed so that integers stay exact (msgspec), and only where an expression asks."""
        return msgspec.json.decode(self.raw) if self.is_json else None

    def payload(self) -> bytes:
        """What is handed on where a route says nothing: the bytes as they came, a form as a JSON object, other text as
        a JSON string; UnicodeDecodeError if it is no text."""
        if self.is_json:
            return self.raw
        return orjson.dumps(dict(self.form) if self.form else self.raw.decode())

    def facts(self, request: WebhookRequest, roots: Collection[str] = ROOTS) -> dict[str, Any]:
        """What expressions see, as far as they look at it; None for the rest."""
        return {
            "headers": {**_headers(request), **self.attributes} if "headers" in roots else None,
            "query": _query(request) if "query" in roots else None,
            "body": self.value() if "body" in roots else None,
            "form": dict(self.form) if "form" in roots else None,
        }


def read_contents(request: WebhookRequest, delivery: Delivery, kind: str) -> list[Content]:
    """What the delivery brings, one content or one for each CloudEvent of a batch.

    How a body is read is the trigger's to say, never the sender's; but a CloudEvents sender chooses its mode. Raises
    InvalidRequest (400, 413, 415).
    """
    if kind == "cloudevents":
        return _cloud_events(request, delivery)
    form = delivery.form
    if form is None and kind == "form" and delivery.body is None:
        form = _form(request.body)
    if form and delivery.body is None:
        return [Content(request.body, False, delivery.id, form)]
    raw = request.body if delivery.body is None else delivery.body
    text = _as_json(raw)
    return [Content(raw if text is None else text, text is not None, delivery.id, form or ())]


def raw_items(content: Content, path: str) -> list[bytes] | None:
    """The items of an array of the body, byte for byte, by its path (`body.events`); None if it is none."""
    names = path.split(".")[1:]
    raw = content.raw
    try:
        for name in names:
            raw = bytes(msgspec.json.decode(raw, type=dict[str, msgspec.Raw])[name])
        return [bytes(item) for item in msgspec.json.decode(raw, type=list[msgspec.Raw])]
    except (msgspec.MsgspecError, KeyError):
        return None


def _read(raw: bytes, identity: str | None, attributes: dict[str, str]) -> Content:
    text = _as_json(raw)
    return Content(raw if text is None else text, text is not None, identity, (), attributes)


def _as_json(raw: bytes) -> bytes | None:
    """The JSON text, mended where only its grammar allows it, so that executors can parse it; None if it is none."""
    if too_deep(raw):
        raise InvalidRequest(f"the body is nested deeper than {MAX_DEPTH} levels", status=400)
    try:
        return raw if is_json(raw) else mend(raw)
    except NumberTooLarge as exc:
        raise InvalidRequest(
            "the body is JSON with a number that no double holds, which nothing here can read"
        ) from exc


def _form(body: bytes) -> Form:
    """The fields of a form of either kind, none for another body."""
    try:
        parts = read_multipart(body)
    except Rejected as exc:
        raise InvalidRequest("the multipart body is cut off, or has a part without a name", status=400) from exc
    if parts is not None:
        return tuple((part.name, part.value) for part in parts)
    try:
        return read_form(body) if looks_like_form(body) else ()
    except Rejected as exc:
        raise InvalidRequest("the form has too many fields", status=413) from exc


def _cloud_events(request: WebhookRequest, delivery: Delivery) -> list[Content]:
    """CloudEvents 1.0 over HTTP: binary, structured and batched mode."""
    content_type = ", ".join(request.values("content-type"))
    kind = content_type.partition(";")[0].strip().lower()
    if kind in (_STRUCTURED, _BATCH):
        body = _as_json(request.body) or b""
        return [_structured(body, delivery, "")] if kind == _STRUCTURED else _batch(body, delivery)
    if kind.startswith(_FORMATS) or not request.values("ce-specversion"):
        raise InvalidRequest(f"no CloudEvent: send ce- headers, or {_STRUCTURED}", status=415)
    headers = {name: value for name, value in _headers(request).items() if name.startswith("ce-")}
    attributes = {name: _written_out(value) for name, value in headers.items()}
    if content_type:
        attributes["ce-datacontenttype"] = content_type
    return [_event(request.body or _NO_DATA, attributes, delivery, "")]


def _written_out(value: str) -> str:
    """An attribute as its header says it (HTTP binding, 3.1.3.2): without quotes around it, and percent-decoded."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = re.sub(r"\\(.)", r"\1", value[1:-1])
    return unquote_to_bytes(value.encode("latin-1")).decode(errors="replace")


def _batch(body: bytes, delivery: Delivery) -> list[Content]:
    try:
        events = msgspec.json.decode(body, type=list[msgspec.Raw])
    except msgspec.MsgspecError:
        events = None
    if events is None:
        raise InvalidRequest("a batch of CloudEvents is a JSON array", status=400)
    if len(events) > MAX_EVENTS:
        raise InvalidRequest(f"{len(events)} events; a batch has at most {MAX_EVENTS}", status=413)
    return [_structured(bytes(event), delivery, f"/{at}") for at, event in enumerate(events)]


def _structured(text: bytes, delivery: Delivery, pointer: str) -> Content:
    try:
        members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        data = bytes(members.pop("data", msgspec.Raw(_NO_DATA)))
        if data.startswith(b'"') and not _is_json_type(members.get("datacontenttype")):
            data = msgspec.json.decode(data, type=str).encode()
        if "data_base64" in members:
            data = base64.b64decode(msgspec.json.decode(members.pop("data_base64"), type=str), validate=True)
        values = {name: msgspec.json.decode(value) for name, value in members.items()}
    except (msgspec.MsgspecError, ValueError, binascii.Error) as exc:
        raise InvalidRequest(f"{pointer or 'the body'}: a CloudEvent is a JSON object", status=400) from exc
    attributes = {f"ce-{name.lower()}": _attribute(value) for name, value in values.items() if value is not None}
    return _event(data, attributes, delivery, pointer)


def _is_json_type(kind: msgspec.Raw | None) -> bool:
    """Whether the data is JSON; a text of another type is what the string holds (JSON format, 3.1)."""
    text = None if kind is None else msgspec.json.decode(kind)
    return not isinstance(text, str) or _JSON_TYPE.match(text) is not None


def _event(data: bytes, attributes: dict[str, str], delivery: Delivery, pointer: str) -> Content:
    lacking = [name for name in ("specversion", "id", "source", "type") if not attributes.get(f"ce-{name}")]
    if lacking or not attributes["ce-specversion"].startswith("1."):
        what = f"the attribute {lacking[0]} is missing" if lacking else "only specversion 1.0 is known"
        raise InvalidRequest(f"{pointer or 'the CloudEvent'}: {what}", status=400)
    # source and id name an event; in binary mode a signature does not cover them, so its data is in it too
    named = "\x1f".join((attributes["ce-source"], attributes["ce-id"], hashlib.sha256(data).hexdigest()))
    return _read(data, hashlib.sha256(named.encode()).hexdigest()[:32], attributes)


def _attribute(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _headers(request: WebhookRequest) -> dict[str, str]:
    """Headers by lower-case name; repeated ones are joined as RFC 9110 5.3 joins them."""
    found = dict(request.headers)
    if len(found) == len(request.headers):
        return found
    return {name: ", ".join(request.values(name)) for name in found}


def _query(request: WebhookRequest) -> dict[str, str]:
    """Query parameters; the last of a repeated name wins."""
    return dict(parse_qsl(request.url.partition("#")[0].partition("?")[2], keep_blank_values=True))
