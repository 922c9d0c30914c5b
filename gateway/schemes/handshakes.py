"""Answers to providers' handshakes, safe to send to anyone: nothing of a request comes back but plain characters.

A page of our host that echoed a parameter as it came could be made to run a stranger's script; so a challenge is
letters, digits and the marks of base64 in any alphabet, goes out as plain text, and no browser may guess another type.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping

import msgspec

from gateway.errors import Rejected
from gateway.verifier import HandshakeResponse

_CHALLENGE = re.compile(r"(?=.{1,256}\Z)[A-Za-z0-9._~+/\-]+=*", re.ASCII)
"""What RFC 9110 calls token68."""
_TEXT = (("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff"))
_JSON = (("content-type", "application/json"), ("x-content-type-options", "nosniff"))


def plain(challenge: object) -> str:
    """The challenge, if it may be sent back or be signed; Rejected if not."""
    if not isinstance(challenge, str) or _CHALLENGE.fullmatch(challenge) is None:
        raise Rejected("malformed")
    return challenge


def echo(challenge: object) -> HandshakeResponse:
    """The challenge as plain text; Rejected if it is none."""
    return HandshakeResponse(200, plain(challenge).encode(), _TEXT)


def json_answer(values: Mapping[str, object], status: int = 200) -> HandshakeResponse:
    """A JSON object."""
    return HandshakeResponse(status, msgspec.json.encode(dict(values)), _JSON)


def proof(secret: str, challenge: object) -> bytes:
    """HMAC-SHA256 of a challenge by a secret.

    Whoever may choose the challenge has our signature of it: so it must not be able to be a delivery's signed content,
    which the plain characters see to.
    """
    return hmac.digest(secret.encode(), plain(challenge).encode(), "sha256")
