"""What stands in for a verifier or an executor whose secret this process does not have (SecretSource.required)."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from gateway.errors import SecretMissing
from gateway.executor import Attempt, Executor
from gateway.jobs import JobRequest
from gateway.verifier import Verifier, WebhookRequest


class Unread(msgspec.Struct, frozen=True):
    """Stands where the configuration would, which cannot be made without the secret."""


def unread_verifier(kind: type[Verifier[Any]], missing: SecretMissing) -> Verifier[Any]:
    """Like one of its kind, but it lets no delivery pass and signs none: it raises `missing`."""

    class UnreadVerifier(Verifier[Unread]):
        name, body_limit, content = kind.name, kind.body_limit, kind.content
        Config = Unread

        def verify(self, request: WebhookRequest, now: float) -> NoReturn:
            raise missing

        def handshake(self, request: WebhookRequest) -> NoReturn:
            raise missing

        def sign(self, request: WebhookRequest, now: float, *, event: str = "") -> NoReturn:
            raise missing

    return UnreadVerifier(Unread())


def unread_executor(like: Executor[Any], missing: SecretMissing) -> Executor[Any]:
    """Like the other for whoever only submits jobs: their flows are the same; it runs none, and raises `missing`."""

    class UnreadExecutor(Executor[Unread]):
        name, has_flow, has_breaker, defers = like.name, like.has_flow, like.has_breaker, like.defers
        Config = Unread

        def check_request(self, config: Unread, request: JobRequest) -> None:
            raise ValueError(f"what a job may set of its request is not known here: {missing.detail}")

        def check(self, config: Unread) -> None:
            raise ValueError(missing.detail)

        async def execute(self, attempt: Attempt[Unread]) -> NoReturn:
            raise missing

    return UnreadExecutor()
