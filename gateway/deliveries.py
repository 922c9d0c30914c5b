"""What is kept of a delivery: a summary to list, and its facts with the body, to look at and to replay."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal, get_args

import msgspec

from gateway.redaction import hide_headers, hide_query
from gateway.verifier import Delivery, WebhookRequest

Verdict = Literal["accepted", "duplicate", "unrouted", "failed", "rejected", "limited", "handshake", "replayed"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

APART = frozenset[Verdict]({"rejected", "limited", "handshake", "replayed"})
"""What is no delivery that anybody would have sent through the routes: listed apart, so that it pushes none of those
out, and without its body."""

MAX_BODY = 256 * 1024
"""A longer body is not kept: a hundred of them would be what Redis has room for."""

MAX_TEXT = 1024
"""Characters of an event's type, or of a reason."""


class Summary(msgspec.Struct, frozen=True, omit_defaults=True, rename={"bytes_": "bytes"}):
    """One delivery in a list; `jobs` are ids with targets, `reason` why it was rejected or failed, `replay_of` the id
    of the delivery that was sent through the routes again."""

    at_ms: int
    verdict: Verdict
    method: str
    path: str
    bytes_: int
    event: str = ""
    reason: str = ""
    sender: str = ""
    jobs: list[tuple[str, str]] = []
    replay_of: str = ""


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What else a replay needs; `inner` is the JSON that a form's field held, `has_body` whether the body was kept."""

    headers: list[tuple[str, str]]
    has_body: bool
    event: str = ""
    inner: str | None = None
    form: list[tuple[str, str]] | None = None


class Noted(msgspec.Struct, frozen=True):
    """A delivery on its way into the list."""

    request: WebhookRequest
    at_ms: int
    verdict: Verdict
    delivery: Delivery | None = None
    jobs: Sequence[tuple[str, str]] = ()
    reason: str = ""
    sender: str = ""
    size: int = 0
    replay_of: str = ""

    def without_body(self) -> Noted:
        """The same, so that a long body need not be held."""
        delivery = None if self.delivery is None else replace(self.delivery, body=None, form=None)
        cut = replace(self.request, body=b"")
        return msgspec.structs.replace(self, request=cut, size=len(self.request.body), delivery=delivery)

    def summary(self, own: Collection[str]) -> bytes:
        """As JSON."""
        event = _text(self.delivery.event) if self.delivery else ""
        request = self.request
        return msgspec.json.encode(
            Summary(
                at_ms=self.at_ms,
                verdict=self.verdict,
                method=request.method[:16],
                path=hide_query(request.url, own)[:2048],
                bytes_=self.size or len(request.body),
                event=event,
                reason=_text(self.reason),
                sender=self.sender,
                jobs=list(self.jobs),
                replay_of=self.replay_of,
            )
        )

    def detail(self, own: Collection[str], *, bodies: bool) -> bytes:
        """The facts and the body; nothing of the body of what is listed apart."""
        kept = bodies and self.verdict not in APART and not self.size
        delivery = self.delivery or Delivery(None)
        facts = Facts(
            headers=hide_headers(self.request.headers, own)[:128],
            has_body=kept,
            event=_text(delivery.event),
            inner=None if delivery.body is None or not kept else delivery.body.decode("utf-8", "replace"),
            form=None if delivery.form is None or not kept else list(delivery.form),
        )
        return msgspec.json.encode(facts) + b"\n" + (self.request.body if kept else b"")


def _text(value: object) -> str:
    """What a verifier says, which its author may have made of anything: one entry that cannot be read would be in the
    way of all others."""
    return str(value)[:MAX_TEXT].encode("utf-8", "replace").decode()


def read_detail(detail: bytes) -> tuple[Facts, bytes]:
    """The facts and the body, as `detail` wrote them."""
    line, _, body = detail.partition(b"\n")
    return msgspec.json.decode(line, type=Facts), body
