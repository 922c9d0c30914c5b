"""Names what went wrong with a request: a denial is found however deep it lies, the rest is one of seven kinds."""

from __future__ import annotations

import errno
import ssl

from aiohttp import (
    ClientConnectionError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientPayloadError,
    ServerDisconnectedError,
)
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from yarl import URL

from gateway.egress.addresses import AddressDenied
from gateway.errors import EgressDenied, GatewayError, HttpError

MAX_DETAIL = 300
_REFUSALS = {
    errno.ECONNREFUSED: "connection refused by",
    errno.ECONNRESET: "connection reset by",
    errno.EHOSTUNREACH: "no way to",
    errno.ENETUNREACH: "no network to",
    errno.ETIMEDOUT: "no answer from",
}
_TOO_MANY_HEADERS = "Too many headers"


class TooManyAnswers(ClientError):
    """The peer went on answering one request."""


def failure(exc: BaseException, timeout_s: float) -> GatewayError:
    """EgressDenied, or the HttpError that says what happened to a request of `timeout_s` seconds."""
    if denied := _denied(exc):
        return EgressDenied(str(denied))
    if isinstance(exc, TimeoutError):
        return HttpError("timeout", f"no full answer within {round(timeout_s, 2):g} s")
    return HttpError(_kind(exc), _detail(exc))


def unconnected_in_time(url: URL, connect_timeout_s: float) -> HttpError:
    """What ended a request whose connection was not there in its own time, which is less than the request's."""
    host = f"[{url.host}]" if ":" in (url.host or "") else url.host
    return HttpError(
        "connect", f"no connection to {host}:{url.port} within the connect_timeout of {connect_timeout_s:g} s"
    )


def _denied(exc: BaseException | None) -> AddressDenied | None:
    """aiohttp wraps what the socket layer raises, as the cause and as `os_error`; chains are short."""
    while exc is not None:
        if isinstance(exc, AddressDenied):
            return exc
        os_error = getattr(exc, "os_error", None)
        if isinstance(os_error, AddressDenied):
            return os_error
        exc = exc.__cause__
    return None


def _kind(exc: BaseException) -> str:
    if isinstance(exc, ssl.SSLError):
        return "tls"
    if isinstance(exc, ClientConnectorDNSError):
        return "dns"
    if isinstance(exc, ClientConnectorError):
        return "connect"
    if isinstance(exc, (ClientConnectionError, OSError)):
        return "reset"
    return "too_large" if _is_too_large(exc) else "protocol"


def _is_too_large(exc: BaseException) -> bool:
    """Did the head of an answer, or the number of answers, pass what is read of them?"""
    if isinstance(exc, TooManyAnswers):
        return True
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, LineTooLong) or _TOO_MANY_HEADERS in str(getattr(cause, "message", "")):
            return True
        cause = cause.__cause__
    return False


def _detail(exc: BaseException) -> str:
    """What the system says; where aiohttp would quote what the peer sent, words of our own."""
    if isinstance(exc, HttpProcessingError):
        return "its headers are larger than allowed" if _is_too_large(exc) else "the answer is not HTTP"
    if isinstance(exc, ClientPayloadError):
        return "the answer broke off, or is not framed as its headers say"
    if isinstance(exc, ServerDisconnectedError):
        return "the connection was closed before an answer"
    if isinstance(exc, ClientConnectorError) and not isinstance(exc, ssl.SSLError):
        return _unconnected(exc)
    return _one_line(exc)


def _unconnected(exc: ClientConnectorError) -> str:
    """aiohttp's own words speak of TLS on a plain connection too, and quote a call."""
    host = f"[{exc.host}]" if ":" in exc.host else exc.host
    if isinstance(exc, ClientConnectorDNSError):
        return f"{host} cannot be resolved: {_one_line(exc.os_error)}"[:MAX_DETAIL]
    said = _REFUSALS.get(exc.os_error.errno or 0)
    if said is not None:
        return f"{said} {host}:{exc.port}"
    return f"cannot connect to {host}:{exc.port}: {_one_line(exc.os_error)}"[:MAX_DETAIL]


def _one_line(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:MAX_DETAIL]
