"""One request checked by one scheme, and one signed by it."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from gateway.errors import Rejected
from gateway.schemes.bodies import BodyFields, Form, as_label, looks_like_form, read_form
from gateway.schemes.keys import digest_sizes, encode_digest, make_digest, matcher
from gateway.schemes.reading import (
    body_time,
    candidates,
    event_name,
    header_parts,
    label,
    optional_label,
    placed_at,
    query_value,
    seconds,
    signed_time,
    signed_urls,
)
from gateway.schemes.scheme import Scheme, pieces
from gateway.secret import Secret
from gateway.verifier import Delivery, WebhookRequest

_DIGEST_CHARS = 32


class Check:
    """A scheme under its secrets; pure, linear in the request, and raises nothing but Rejected.

    The time is judged after the signature, so that the reason `timestamp` means a genuine delivery that is late.
    Making one raises ValueError, without showing a secret, for a secret that the scheme cannot use.
    """

    def __init__(self, scheme: Scheme, *, secrets: Sequence[Secret], url: str | None = None) -> None:
        self.scheme = scheme
        self._secret = secrets[0] if secrets else Secret("")
        self._matches = matcher(secrets, scheme.algorithm, scheme.secret_encoding)
        self._url = url
        self.needs_public_url = "{url}" in scheme.signed and url is None
        self._pieces = pieces(scheme.signed)
        self._header = scheme.header.lower()
        self._sizes = digest_sizes(scheme.algorithm)
        self._whole_body = scheme.signed == "{body}"
        self._time = _member(scheme.timestamp_field.rpartition(".")[2]) if scheme.timestamp_field else None
        paths = tuple(filter(None, (*scheme.id_fields, *scheme.event_fields, scheme.timestamp_field)))
        self._fields = BodyFields(paths) if paths else None

    def __call__(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery, if a candidate is the signature by one of the secrets and its time is near `now`."""
        scheme, value = self.scheme, request.optional(self._header)
        if value is None:
            raise Rejected("no_signature")
        parts = header_parts(scheme, value) if scheme.separator else (value,)
        found = candidates(scheme, parts, self._sizes)
        if self._whole_body:
            if not self._matches(request.body, found):
                raise Rejected("mismatch")
            if self._fields is None:
                return self._named_by_headers(request)
            return self._delivery(request, now, signed_id="", message=request.body)
        timestamp = signed_time(scheme, parts, request)
        at_s = None if timestamp is None else seconds(timestamp, scheme.timestamp_format)
        delivery_id = label(request, scheme.id_header) if "{id}" in scheme.signed else ""
        messages = self._messages(request, timestamp or "", delivery_id)
        if not any([self._matches(each, found) for each in messages]):  # noqa: C419 - no early end
            raise Rejected("mismatch")
        if at_s is not None and not abs(now - at_s) <= scheme.tolerance:
            raise Rejected("timestamp")
        return self._delivery(request, now, signed_id=delivery_id, message=messages[0])

    def sign(self, request: WebhookRequest, now: float, *, event: str = "") -> WebhookRequest | None:
        """The request as the sender would send it, with an id and a time of its own where it has none; None for an
        asymmetric scheme. Headers that it has stay as they are."""
        scheme, given = self.scheme, dict(request.headers)
        if scheme.asymmetric:
            return None
        request = replace(request, body=_with_time(request.body, scheme, now))
        timestamp = given.get(scheme.timestamp_header.lower()) or _written(now, scheme.timestamp_format)
        delivery_id = given.get(scheme.id_header.lower()) or str(uuid.uuid4())
        message = self._messages(request, timestamp if "{timestamp}" in scheme.signed else "", delivery_id)[0]
        digest = make_digest(self._secret, scheme.algorithm, scheme.secret_encoding, message=message) or b""
        text = scheme.prefix + encode_digest(digest, scheme.encoding)
        if scheme.timestamp_prefix:
            text = f"{scheme.timestamp_prefix}{timestamp}{scheme.separator}{text}"
        own = {scheme.header: text, scheme.timestamp_header: timestamp, scheme.id_header: delivery_id}
        if scheme.event_header and event:
            own[scheme.event_header] = event
        headers = tuple((name.lower(), value) for name, value in own.items() if name and name.lower() not in given)
        return replace(request, headers=(*request.headers, *headers))

    def _messages(self, request: WebhookRequest, timestamp: str, delivery_id: str) -> list[bytes]:
        """What may have been signed: one message, or one for each spelling of the URL."""
        facts = {"{body}": request.body, "{timestamp}": timestamp.encode(), "{id}": delivery_id.encode("latin-1")}
        facts["{method}"] = request.method.encode("latin-1", "replace")
        if "{crc32}" in self.scheme.signed:
            facts["{crc32}"] = str(zlib.crc32(request.body)).encode()
        urls = [""]
        if "{url}" in self.scheme.signed:
            urls = signed_urls(self.scheme.url_form, placed_at(request.url, self._url))
        if "{form}" in self.scheme.signed:
            facts["{form}"] = b"" if self._hashed_body(request) else _joined(read_form(request.body))
        encoded = [url.encode("utf-8", "surrogatepass") for url in urls]
        return [b"".join(facts.get(each, url if each == "{url}" else each.encode()) for each in self._pieces)
                for url in encoded]  # fmt: skip

    def _hashed_body(self, request: WebhookRequest) -> bool:
        """Whether the signed URL holds the body's hash; Rejected if it is that of another body."""
        name = self.scheme.body_hash_query
        claimed = query_value(placed_at(request.url, self._url), name) if name else None
        if claimed is None:
            return False
        own = hashlib.sha256(request.body).hexdigest()
        if not hmac.compare_digest(own.encode(), claimed.lower().encode("utf-8", "replace")):
            raise Rejected("mismatch")
        return True

    def _delivery(self, request: WebhookRequest, now: float, *, signed_id: str, message: bytes) -> Delivery:
        scheme = self.scheme
        body, form = (None, None) if scheme.body_format == "json" else self._content(request)
        values = self._fields.read(request.body if body is None else body) if self._fields else {}
        if form:
            values |= dict(form)
        if scheme.timestamp_field:
            at_s = seconds(body_time(values.get(scheme.timestamp_field)), scheme.timestamp_format)
            if not abs(now - at_s) <= scheme.tolerance:
                raise Rejected("timestamp")
        event = event_name(request, scheme.event_header)
        if not event and scheme.event_fields:
            event = next((text for path in scheme.event_fields if (text := as_label(values.get(path)))), "")
        own = [as_label(values.get(path)) for path in scheme.id_fields] if scheme.id_fields else None
        named = ":".join(own) if own and own[0] else ""
        if named and "{form}" in scheme.signed:  # a form is answered with the next step, which has the same ids
            named = f"{named}:{_short_hash(message)}"
        return Delivery(
            signed_id or named or self._bound_id(request, message),
            event,
            body,
            form=form,
            item_fields=scheme.item_fields,
        )

    def _named_by_headers(self, request: WebhookRequest) -> Delivery:
        """As `_delivery`, of a scheme that signs the body alone and reads nothing in it."""
        scheme = self.scheme
        body, form = (None, None) if scheme.body_format == "json" else self._content(request)
        event = event_name(request, scheme.event_header)
        return Delivery(self._bound_id(request, request.body), event, body, form, None, scheme.item_fields)

    def _bound_id(self, request: WebhookRequest, message: bytes) -> str | None:
        """What a repeat is recognised by where no id is signed: bound to bytes that are.

        A scheme with neither an id nor a time is not deduplicated: two equal bodies may be two events.
        """
        unsigned = optional_label(request, self.scheme.id_header)
        if unsigned or (self.scheme.dedupe_body and request.body):
            body = request.body if self._time is None else self._without_time(request.body, self._time)
            return f"{unsigned}:{_short_hash(body)}"
        return _short_hash(message) if "{timestamp}" in self.scheme.signed else None

    @staticmethod
    def _without_time(body: bytes, time: re.Pattern[bytes]) -> bytes:
        """The body but for the time, which is new in each attempt; all of it where another member has that name, since
        events may differ by that one alone."""
        rest, found = time.subn(b"", body)
        return rest if found == 1 else body

    def _content(self, request: WebhookRequest) -> tuple[bytes | None, Form | None]:
        """The JSON that a form field holds, and the form; neither for a body that is to be taken as it is."""
        scheme = self.scheme
        if scheme.body_format == "either" and not looks_like_form(request.body):
            return None, None
        if scheme.body_hash_query and self._hashed_body(request):
            return None, None
        form = read_form(request.body)
        if len(form) == 1 and form[0][0] == scheme.form_field:
            return form[0][1].encode("utf-8", "surrogatepass"), form
        return None, form


def _member(name: str) -> re.Pattern[bytes]:
    """A member of a JSON object whose value is a number or a text, by its name."""
    return re.compile(rb'"%b"\s*:\s*(?:[0-9]+|"[^"\\]*")' % name.encode())


def _short_hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:_DIGEST_CHARS]


def _joined(form: Form) -> bytes:
    return "".join(name + value for name, value in sorted(set(form))).encode("utf-8", "surrogatepass")


def _written(now: float, how: str) -> str:
    if how == "rfc3339":
        return f"{datetime.fromtimestamp(int(now), UTC):%Y-%m-%dT%H:%M:%SZ}"
    return str(int(now * 1000)) if how == "milliseconds" else str(int(now))


def _with_time(body: bytes, scheme: Scheme, now: float) -> bytes:
    """The body with its time set, where the scheme reads the time from a top-level field."""
    if not scheme.timestamp_field or "." in scheme.timestamp_field:
        return body
    try:
        content = json.loads(body)
    except ValueError:
        return body
    if not isinstance(content, dict):
        return body
    text = _written(now, scheme.timestamp_format)
    content[scheme.timestamp_field] = int(text) if text.isdigit() else text
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
