"""How a request says who sends it, beside its signature: a bearer token, a password, or an HMAC in a header."""

from __future__ import annotations

import base64
import hmac
from typing import Literal

import msgspec

from gateway import FieldFault, Secret, check_headers

MAX_CREDENTIAL = 4096


class Bearer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="bearer"):
    """`authorization: Bearer <token>`."""

    token: Secret

    def __post_init__(self) -> None:
        _check_visible("token", self.token)

    def header(self, body: bytes) -> tuple[str, str]:
        return "authorization", f"Bearer {self.token.reveal()}"

    @property
    def header_name(self) -> str:
        return "authorization"


class Basic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="basic"):
    """`authorization: Basic …` (RFC 7617, UTF-8)."""

    username: str
    password: Secret

    def __post_init__(self) -> None:
        if ":" in self.username or not self.username.isprintable():
            raise FieldFault("username", "holds a colon, or a character that cannot be printed")
        if not self.password.reveal().isprintable() or len(self.password.reveal()) > MAX_CREDENTIAL:
            raise FieldFault("password", f"must be at most {MAX_CREDENTIAL} printable characters")

    def header(self, body: bytes) -> tuple[str, str]:
        pair = f"{self.username}:{self.password.reveal()}".encode()
        return "authorization", f"Basic {base64.b64encode(pair).decode()}"

    @property
    def header_name(self) -> str:
        return "authorization"


class HmacHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="hmac"):
    """`<name>: <prefix><HMAC of the body>`, as GitHub and many others sign; the secret's UTF-8 text is the key."""

    name: str
    secret: Secret
    algorithm: Literal["sha256", "sha512", "sha1"] = "sha256"
    encoding: Literal["hex", "base64"] = "hex"
    prefix: str = ""

    def __post_init__(self) -> None:
        try:
            check_headers({self.name: self.prefix})
        except ValueError as exc:
            raise FieldFault("name", str(exc)) from exc

    def header(self, body: bytes) -> tuple[str, str]:
        mac = hmac.digest(self.secret.reveal().encode(), body, self.algorithm)
        text = mac.hex() if self.encoding == "hex" else base64.b64encode(mac).decode()
        return self.name, self.prefix + text

    @property
    def header_name(self) -> str:
        return self.name.lower()


Auth = Bearer | Basic | HmacHeader


def _check_visible(field: str, secret: Secret) -> None:
    text = secret.reveal()
    if len(text) > MAX_CREDENTIAL or not all("!" <= letter <= "~" for letter in text):
        raise FieldFault(field, f"must be at most {MAX_CREDENTIAL} visible ASCII characters, without spaces")
