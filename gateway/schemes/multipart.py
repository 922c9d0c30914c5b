"""A form as `multipart/form-data` (RFC 7578), as senders of files write it: its texts, and its files as data URLs.

The boundary is told from the body and not from the Content-Type: a body may be signed, its headers are not.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from gateway.errors import Rejected

MAX_PARTS = 1000

_MAX_HEAD = 8192
_OPENING = re.compile(rb"--[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?](?=\r\n)")
_PARAMETER = re.compile(r';\s*([A-Za-z]+\*?)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_EXTENDED = re.compile(r"([A-Za-z0-9\-]*)'[^']*'(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Part:
    """One field; `filename` is None for a text."""

    name: str
    content: bytes
    filename: str | None = None
    content_type: str = ""

    @property
    def text(self) -> str:
        """The content as text."""
        return self.content.decode(errors="replace")

    @property
    def value(self) -> str:
        """The text, or a file as a data URL (RFC 2397) with its type and its `name`: text that holds all of it."""
        if self.filename is None:
            return self.text
        kind = "".join(self.content_type.split()) or "application/octet-stream"
        name = f";name={quote(self.filename, safe='')}" if self.filename else ""
        return f"data:{kind}{name};base64,{base64.b64encode(self.content).decode()}"


def read_multipart(body: bytes) -> tuple[Part, ...] | None:
    """The fields of a multipart body, in order; None for a body of another kind. Rejected if it is cut off or wrong."""
    opening = _OPENING.match(body)
    if opening is None:
        return None
    sections = body[opening.end() :].split(b"\r\n" + opening[0], MAX_PARTS + 1)
    if len(sections) > MAX_PARTS + 1 or not sections.pop().startswith(b"--"):
        raise Rejected("body")
    return tuple(_part(section) for section in sections)


def _part(section: bytes) -> Part:
    end = section.find(b"\r\n\r\n", 0, _MAX_HEAD)
    lines = section[:end].decode(errors="replace").split("\r\n") if end > 0 else []
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    kind, mark, _ = headers.get("content-disposition", "").partition(";")
    parameters = _parameters(headers["content-disposition"]) if mark else {}
    name = parameters.get("name", "")
    if kind.strip().lower() != "form-data" or not name:
        raise Rejected("body")
    return Part(name, section[end + 4 :], parameters.get("filename"), headers.get("content-type", ""))


def _parameters(header: str) -> dict[str, str]:
    """By name; `filename*`, which says its encoding (RFC 8187), stands for `filename` too."""
    found: dict[str, str] = {}
    for key, quoted, bare in _PARAMETER.findall(header):
        found[key.lower()] = re.sub(r"\\(.)", r"\1", quoted) if quoted else bare
    extended = _EXTENDED.fullmatch(found.get("filename*", ""))
    if extended is not None:
        encoding = "latin-1" if extended[1].lower() == "iso-8859-1" else "utf-8"
        found["filename"] = unquote(extended[2], encoding=encoding)
    return found
