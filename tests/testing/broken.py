"""Executors and verifiers that each break one promise; `test_contracts_reject` runs the contract suites on them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import time
import uuid
from typing import Any, ClassVar

import msgspec
import pytest

from gateway import (
    Attempt,
    Delivery,
    Executor,
    Fatal,
    Rejected,
    Result,
    Retry,
    Secret,
    Verifier,
    WebhookRequest,
)
from gateway.testing.executors import ExecutorContract
from gateway.testing.verifiers import Sign, VerifierContract


class DoConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    do: str


class LooseConfig(msgspec.Struct, frozen=True):
    do: str


class Sound(Executor[Any]):
    """Breaks no promise; the others derive from it."""

    name: ClassVar[str] = "sound"
    Config: ClassVar[type[msgspec.Struct]] = DoConfig

    async def execute(self, attempt: Attempt[Any]) -> Result:
        match attempt.config.do:
            case "slow":
                await self.wait(attempt)
            case "retry":
                raise Retry("later", details={"n": 1})
            case "fatal":
                raise Fatal("never")
            case "error":
                raise KeyError("k")
        return Result({"n": attempt.number})

    async def wait(self, attempt: Attempt[Any]) -> None:
        await asyncio.sleep(60)


class SwallowsCancellation(Sound):
    async def wait(self, attempt: Attempt[Any]) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return


class LeavesATask(Sound):
    async def wait(self, attempt: Attempt[Any]) -> None:
        self.task = asyncio.ensure_future(asyncio.sleep(1))
        await asyncio.sleep(60)


class LeavesAProcess(Sound):
    async def wait(self, attempt: Attempt[Any]) -> None:
        os.posix_spawnp("sleep", ["sleep", "2"], os.environ)  # noqa: ASYNC221
        await asyncio.sleep(60)


class LeaksADescriptor(Sound):
    async def execute(self, attempt: Attempt[Any]) -> Result:
        if attempt.config.do == "ok":
            os.dup(0)
        return await super().execute(attempt)


class ReturnsWhatIsNoJson(Sound):
    async def execute(self, attempt: Attempt[Any]) -> Result:
        result = await super().execute(attempt)
        return Result({1, 2}) if attempt.config.do == "ok" else result


class TakesUnknownKeys(Sound):
    Config: ClassVar[type[msgspec.Struct]] = LooseConfig


class TurnsFatalIntoRetry(Sound):
    async def execute(self, attempt: Attempt[Any]) -> Result:
        try:
            return await super().execute(attempt)
        except Fatal as exc:
            raise Retry(exc.message) from exc


class HidesItsRetry(Sound):
    async def execute(self, attempt: Attempt[Any]) -> Result:
        try:
            return await super().execute(attempt)
        except Retry:
            return Result({"retried": True})


class WrapsOtherErrors(Sound):
    async def execute(self, attempt: Attempt[Any]) -> Result:
        try:
            return await super().execute(attempt)
        except KeyError as exc:
            raise Fatal("something went wrong") from exc


class SharesItsState(Sound):
    async def wait(self, attempt: Attempt[Any]) -> None:
        self.waiting: set[asyncio.Future[Any]] = getattr(self, "waiting", set())
        own = asyncio.ensure_future(asyncio.sleep(60))
        self.waiting.add(own)
        try:
            await own
        finally:
            for each in self.waiting:
                each.cancel()


class BlocksTheLoop(Sound):
    async def execute(self, attempt: Attempt[Any]) -> Result:
        if attempt.config.do == "ok":
            time.sleep(0.3)  # noqa: ASYNC251  that is its fault
        return await super().execute(attempt)


class ClosesOnlyOnce(Sound):
    closed = False

    async def aclose(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class HasNoName(Sound):
    name = " sound "


class Contract(ExecutorContract):
    kind: ClassVar[type[Sound]]
    cancel_within_s: ClassVar[float] = 0.3
    started_within_s: ClassVar[float] = 0.05

    @pytest.fixture
    def executor(self) -> Executor[Any]:
        return self.kind()

    def make(self, do: str) -> msgspec.Struct:
        return msgspec.convert({"do": do}, self.kind.Config)

    @pytest.fixture
    def config_ok(self) -> msgspec.Struct:
        return self.make("ok")

    @pytest.fixture
    def config_slow(self) -> msgspec.Struct:
        return self.make("slow")

    @pytest.fixture
    def config_retry(self) -> msgspec.Struct:
        return self.make("retry")

    @pytest.fixture
    def config_fatal(self) -> msgspec.Struct:
        return self.make("fatal")

    @pytest.fixture
    def config_error(self) -> msgspec.Struct:
        return self.make("error")


EXECUTORS: list[type[Sound]] = [Sound, *Sound.__subclasses__()]
for _kind in EXECUTORS:
    globals()[f"Test{_kind.__name__}"] = type(f"Test{_kind.__name__}", (Contract,), {"kind": _kind})


class SecretsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    secrets: tuple[Secret, ...]


HEADER, TIME = "x-till-mac", "x-till-time"
TOLERANCE_S = 300


def mac_of(secret: str, at: str, body: bytes) -> str:
    return hmac.new(secret.encode(), at.encode("latin-1") + b"." + body, hashlib.sha256).hexdigest()


class SoundVerifier(Verifier[SecretsConfig]):
    """Breaks no promise; the others derive from it."""

    name = "sound"
    Config = SecretsConfig

    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        given, at = self.signature(request), request.one(TIME)
        if not (at.isascii() and at.isdigit() and len(at) < 16):
            raise Rejected("malformed")
        body = self.body(request)
        fits = [self.same(mac_of(secret.reveal(), at, body), given) for secret in self.secrets()]
        if not any(fits):
            raise Rejected("mismatch")
        if not self.is_fresh(int(at), now):
            raise Rejected("timestamp")
        return Delivery(id=self.make_id(given))

    def signature(self, request: WebhookRequest) -> str:
        return request.one(HEADER)

    def body(self, request: WebhookRequest) -> bytes:
        return request.body

    def secrets(self) -> tuple[Secret, ...]:
        return self.config.secrets

    def same(self, wanted: str, given: str) -> bool:
        return hmac.compare_digest(wanted.encode(), given.encode("latin-1"))

    def is_fresh(self, at: int, now: float) -> bool:
        return abs(now - at) <= TOLERANCE_S

    def make_id(self, given: str) -> str:
        return given


class ComparesOnlyTheStart(SoundVerifier):
    def same(self, wanted: str, given: str) -> bool:
        return wanted.startswith(given)


class CrashesWithoutASignature(SoundVerifier):
    def signature(self, request: WebhookRequest) -> str:
        if not request.values(HEADER):
            raise KeyError(HEADER)
        return request.one(HEADER)


class IgnoresTheTime(SoundVerifier):
    def is_fresh(self, at: int, now: float) -> bool:
        return True


class SignsTheStrippedBody(SoundVerifier):
    def body(self, request: WebhookRequest) -> bytes:
        return request.body.strip()


class KnowsOneSecretOnly(SoundVerifier):
    def secrets(self) -> tuple[Secret, ...]:
        return self.config.secrets[:1]


class MakesUpIds(SoundVerifier):
    def make_id(self, given: str) -> str:
        return uuid.uuid4().hex


class TakesTheLastOfTwo(SoundVerifier):
    def signature(self, request: WebhookRequest) -> str:
        values = request.values(HEADER)
        if not values:
            raise Rejected("no_signature")
        if len(values[-1]) > 4096:
            raise Rejected("malformed")
        return values[-1]


class OfTill(VerifierContract):
    kind: ClassVar[type[SoundVerifier]]
    signature_header = HEADER
    timestamp_header = TIME
    tolerance_s = float(TOLERANCE_S)

    @pytest.fixture
    def verifier(self) -> Verifier[Any]:
        return self.kind(SecretsConfig((Secret("first"), Secret("second"))))

    @pytest.fixture
    def sign(self) -> Sign:
        return signer("first")

    @pytest.fixture
    def sign_second(self) -> Sign:
        return signer("second")

    @pytest.fixture
    def sign_wrong(self) -> Sign:
        return signer("third")


def signer(secret: str) -> Sign:
    def sign(body: bytes, now: float) -> WebhookRequest:
        at = str(int(now))
        headers = ((HEADER, mac_of(secret, at, body)), (TIME, at))
        return WebhookRequest("POST", "https://hooks.example/hooks/till", headers, body)

    return sign


VERIFIERS: list[type[SoundVerifier]] = [SoundVerifier, *SoundVerifier.__subclasses__()]
for _each in VERIFIERS:
    globals()[f"Test{_each.__name__}"] = type(f"Test{_each.__name__}", (OfTill,), {"kind": _each})
