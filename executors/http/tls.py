"""TLS beyond the system's: an authority of the target's own, and the certificate that we show."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache

from gateway import FieldFault, Secret

MAX_PEM = 65536


def check_ca(pem: str) -> None:
    """ValueError unless the text holds certificates."""
    if len(pem) > MAX_PEM:
        raise ValueError(f"is longer than {MAX_PEM} characters")
    try:
        ssl.create_default_context(cadata=_plain(pem))
    except (ssl.SSLError, ValueError) as exc:
        raise ValueError('not certificates; write their PEM text ("-----BEGIN CERTIFICATE-----…")') from exc


def _plain(pem: str) -> str:
    """Without what only a comment between certificates can have, and the library refuses: letters beyond ASCII."""
    return pem.encode("ascii", "ignore").decode()


def client_context(ca: Secret | None, cert: str | None, key: str | None) -> ssl.SSLContext | None:
    """What a target's connections use; None for the client's own. Files that have changed are read again.

    Raises FieldFault if a file cannot be used.
    """
    if ca is None and cert is None:
        return None
    stamps = tuple(_stamp(field, path) for field, path in (("client_cert", cert), ("client_key", key)) if path)
    return _context(ca, cert, key, stamps)


def _stamp(field: str, path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as exc:
        raise FieldFault(field, f"cannot read {path}: {exc.strerror}") from exc
    return found.st_mtime_ns, found.st_ino


@lru_cache(maxsize=256)
def _context(
    ca: Secret | None, cert: str | None, key: str | None, stamps: tuple[tuple[int, int], ...]
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=_plain(ca.reveal()) if ca else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert is not None:
        try:
            # the password: without one a key that is encrypted would be asked for on the terminal
            context.load_cert_chain(cert, key, password="")
        except (ssl.SSLError, OSError, ValueError) as exc:
            raise FieldFault("client_cert", f"{cert} and its key cannot be used: not PEM, or no pair") from exc
    return context
