"""CloudEvents over HTTP: a bearer token, in `Authorization` or `?access_token=`, and the OPTIONS handshake.

A sender asks whether it may send (`WebHook-Request-Origin`); a gateway that does not name it is a refusal. Its callback
is not called: the answer stands at once.
"""

from __future__ import annotations

import re
from typing import Any

from gateway import HandshakeResponse, Settings, Verifier, WebhookRequest, hookimpl, schemes

_ORIGIN = re.compile(r"[A-Za-z0-9.\-]{1,253}", re.ASCII)
ANY = "*"


class CloudeventsConfig(schemes.SecretsConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`allowed_origins` may send, `"*"` stands for all; `allowed_rate` is how many requests a minute, None: any."""

    allowed_origins: tuple[str, ...] = ()
    allowed_rate: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for origin in self.allowed_origins:
            if origin != ANY and _ORIGIN.fullmatch(origin) is None:
                raise ValueError(f'allowed_origins: {origin!r} is no host name; write "events.example", or "*"')
        if self.allowed_rate is not None and self.allowed_rate < 1:
            raise ValueError("allowed_rate is a number of requests a minute, 1 or more")


class CloudeventsVerifier(schemes.TokenVerifier[CloudeventsConfig]):
    """Checks the token, and answers the handshake."""

    name = "cloudevents"
    Config = CloudeventsConfig
    scheme = schemes.TokenScheme(header="authorization", prefix="Bearer ", query="access_token")
    content = "cloudevents"

    def handshake(self, request: WebhookRequest) -> HandshakeResponse | None:
        """What is allowed to whom; an origin that is not is answered without saying so."""
        if request.method != "OPTIONS":
            return None
        origins = request.values("webhook-request-origin")
        headers = [("allow", "POST")]
        allowed = {origin.lower() for origin in self.config.allowed_origins}
        if len(origins) == 1 and _ORIGIN.fullmatch(origins[0]) and not allowed.isdisjoint((ANY, origins[0].lower())):
            rate = ANY if self.config.allowed_rate is None else str(self.config.allowed_rate)
            headers += [("webhook-allowed-origin", origins[0]), ("webhook-allowed-rate", rate)]
        return HandshakeResponse(200, b"", tuple(headers))


@hookimpl
def register_verifiers(settings: Settings) -> list[type[Verifier[Any]]]:
    """Offers `cloudevents`."""
    return [CloudeventsVerifier]
