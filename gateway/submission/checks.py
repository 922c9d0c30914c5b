"""What a field must satisfy beside its type."""

from __future__ import annotations

from gateway.backoff import CALLBACK_RETRY
from gateway.egress.addresses import Allowed, check_literal
from gateway.egress.rules import check_url
from gateway.errors import EgressDenied
from gateway.jobs import Callback
from gateway.signing import SECRET_PREFIX, parse_secret
from gateway.submission.body import SubmitBody
from gateway.submission.faults import Faults, step
from gateway.wellformed import is_json

MAX_KEY_BYTES = 128
MAX_IDEMPOTENCY_KEY_BYTES = 256
MAX_TAGS = 10
MAX_TAG = 64
MAX_TIMEOUT_S = 7 * 86400.0
SECRET_BYTES = range(24, 65)
"""What Standard Webhooks wants of a secret."""


def check_fields(body: SubmitBody, faults: Faults) -> None:
    """Adds a fault for every field that no other one matters to."""
    _check_payload(bytes(body.payload), faults)
    if body.key is not None and (problem := key_problem(body.key)):
        faults.add("/key", problem)
    if body.expires_in is not None and body.expires_in < 0.001:
        faults.add("/expires_in", "must be at least 1ms; leave it out for a job that never expires")
    if body.timeout is not None and not 0.001 <= body.timeout <= MAX_TIMEOUT_S:
        faults.add("/timeout", "must lie between 1ms and 7d")
    _check_tags(body.tags or (), faults)


def check_idempotency_key(body: SubmitBody, header: str | None, faults: Faults) -> str:
    """The idempotency key of body or header, empty for none."""
    key, pointer = body.idempotency_key, "/idempotency_key"
    if header is not None and not header.isascii():  # one client would send it as UTF-8, and another as Latin-1
        faults.add("header Idempotency-Key", "holds more than ASCII; give it as idempotency_key in the body")
        return ""
    if key is None:
        key, pointer = header, "header Idempotency-Key"
    elif header is not None and header != key:
        faults.add(pointer, "is not the key in the header Idempotency-Key; give one of them, or the same twice")
    if key is not None and (problem := _text_problem(key, MAX_IDEMPOTENCY_KEY_BYTES)):
        faults.add(pointer, problem)
    return key or ""


def key_problem(key: str) -> str | None:
    """What is wrong with a job's key, None if nothing is."""
    return _text_problem(key, MAX_KEY_BYTES)


def _text_problem(text: str, most_bytes: int) -> str | None:
    if not text:
        return "is empty; leave it out or give one"
    if not text.isprintable():
        return "holds a character that cannot be printed"
    if (size := len(text.encode())) > most_bytes:
        return f"is {size} bytes long; at most {most_bytes} are allowed"
    return None


def _check_payload(payload: bytes, faults: Faults) -> None:
    """JSON allows numbers that no double holds (`1e999`); parsers of ours refuse them, so nothing could run the job."""
    if not is_json(payload):
        faults.add("/payload", "holds a number that is too large for a double; send it as a string")


def check_callback(callback: Callback, allowed: Allowed, faults: Faults) -> None:
    """Adds a fault for every part of a callback that is wrong."""
    check_destination(callback.url, allowed, "/callback/url", faults)
    if not callback.events and not faults.touch("/callback/events"):
        faults.add("/callback/events", "is empty; leave it out for every event, or leave the callback out")
    if callback.retry is not None:
        try:
            callback.retry.over(CALLBACK_RETRY)
        except ValueError as exc:
            faults.add("/callback/retry", f"{exc} (the defaults are base 1s and cap 6h)")
    if callback.secret is not None and (problem := _secret_problem(callback.secret)):
        faults.add("/callback/secret", problem)


def check_destination(url: str, allowed: Allowed, pointer: str, faults: Faults) -> bool:
    """Adds a fault unless it is a URL that may be called, as far as that can be told before its host is resolved."""
    try:
        check_literal(check_url(url), allowed)
    except (ValueError, EgressDenied) as exc:
        faults.add(pointer, str(exc))
        return False
    return True


def _secret_problem(text: str) -> str | None:
    mend = f'write "{SECRET_PREFIX}" and the base64 of 24 to 64 random bytes'
    try:
        size = len(parse_secret(text)) if text.startswith(SECRET_PREFIX) else 0
    except ValueError:
        size = 0
    if not size:
        return f"not a Standard Webhooks secret; {mend}"
    return None if size in SECRET_BYTES else f"is a secret of {size} bytes; {mend}"


def _check_tags(tags: tuple[str, ...], faults: Faults) -> None:
    if len(tags) > MAX_TAGS:
        faults.add("/tags", f"{len(tags)} tags; at most {MAX_TAGS} are allowed")
    for at, tag in enumerate(tags[:MAX_TAGS]):
        if not 1 <= len(tag) <= MAX_TAG or not tag.isprintable():
            faults.add(step("/tags", at), f"a tag is 1 to {MAX_TAG} printable characters")
