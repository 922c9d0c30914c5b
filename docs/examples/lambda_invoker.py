"""An executor that invokes functions of AWS Lambda, or of whatever speaks its HTTP API.

    plugins = ["lambda_invoker"]              # gateway.toml, with this file beside it

    [targets.thumbnail]
    executor = "lambda"
    endpoint = "https://lambda.eu-central-1.amazonaws.com"
    function = "thumbnail:live"
    region = "eu-central-1"
    access_key = "AKIA…"
    secret_key = { env = "AWS_SECRET_ACCESS_KEY" }

The payload is the event and the function's answer the result. Without `access_key` requests are not signed, for local
emulators (which `[egress] allow` must name).
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal
from urllib.parse import quote, urlsplit

import msgspec
import orjson

from gateway import Attempt, Executor, Fatal, HttpResponse, Result, Retry, Secret, check_url, hookimpl

GATEWAY_PLUGIN_API = 1


class LambdaConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The keys of a target's table; `kind` `Event` has the function run later and gives no result."""

    endpoint: str
    function: str
    region: str = "us-east-1"
    kind: Literal["RequestResponse", "Event"] = "RequestResponse"
    access_key: str | None = None
    secret_key: Secret | None = None

    def __post_init__(self) -> None:
        check_url(self.endpoint)
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("access_key and secret_key go together")


class LambdaExecutor(Executor[LambdaConfig]):
    """POSTs the payload's bytes to `/2015-03-31/functions/<function>/invocations`, signed by Signature Version 4."""

    name: ClassVar[str] = "lambda"
    Config: ClassVar[type[msgspec.Struct]] = LambdaConfig

    async def execute(self, attempt: Attempt[LambdaConfig]) -> Result:
        config, body = attempt.config, attempt.payload.raw
        path = f"/2015-03-31/functions/{quote(config.function, safe=':')}/invocations"
        url = config.endpoint.rstrip("/") + path
        headers = {"content-type": "application/json", "x-amz-invocation-type": config.kind}
        if config.access_key is not None and config.secret_key is not None:
            now = datetime.datetime.now(datetime.UTC)
            signer = Signer(config.access_key, config.secret_key.reveal(), config.region, "lambda")
            headers |= signer.headers("POST", url, headers, body=body, now=now)
        answer = await attempt.http.request(
            "POST", url, headers=tuple(headers.items()), body=body, timeout_s=attempt.remaining_s()
        )
        return _read(answer)


def _read(answer: HttpResponse) -> Result:
    if answer.status == 429 or answer.status >= 500:
        raise Retry(f"Lambda answered {answer.status}", type="http", details={"status": answer.status})
    if answer.status >= 300:
        text = answer.body.decode(errors="replace")[:500]
        raise Fatal(f"Lambda answered {answer.status}: {text}", type="http", details={"status": answer.status})
    value = _parse(answer.body)
    if answer.header("x-amz-function-error") is not None:
        told = value if isinstance(value, dict) else {}
        raise Retry(str(told.get("errorMessage", "the function failed")), type=str(told.get("errorType", "function")))
    return Result(value)


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body) if body else None
    except orjson.JSONDecodeError:
        return body.decode(errors="replace")


class Signer:
    """AWS Signature Version 4, for a request whose headers are all signed."""

    def __init__(self, access_key: str, secret_key: str, region: str, service: str) -> None:
        self._access_key, self._secret_key = access_key, secret_key
        self._region, self._service = region, service

    def headers(
        self, method: str, url: str, headers: Mapping[str, str], *, body: bytes, now: datetime.datetime
    ) -> dict[str, str]:
        """The headers to add: the time and the authorization."""
        at = now.strftime("%Y%m%dT%H%M%SZ")
        parts = urlsplit(url)
        signed = {**headers, "host": parts.netloc, "x-amz-date": at}
        names = ";".join(sorted(signed))
        canonical = "\n".join(
            [
                method,
                quote(parts.path or "/", safe="/"),  # encoded once more, as every service but S3 wants it
                parts.query,
                *(f"{name}:{signed[name].strip()}" for name in sorted(signed)),
                "",
                names,
                hashlib.sha256(body).hexdigest(),
            ]
        )
        scope = f"{at[:8]}/{self._region}/{self._service}/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", at, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        signature = hmac.new(self.key(at[:8]), text.encode(), hashlib.sha256).hexdigest()
        credential = f"Credential={self._access_key}/{scope}"
        authorization = f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"
        return {"x-amz-date": at, "authorization": authorization}

    def key(self, date: str) -> bytes:
        """The day's key."""
        key = f"AWS4{self._secret_key}".encode()
        for part in (date, self._region, self._service, "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key


@hookimpl
def register_executors() -> Iterable[Executor[Any]]:
    """Offers the executor."""
    return [LambdaExecutor()]
