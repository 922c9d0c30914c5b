"""Jobs as values: bodies that come back as they went in, and the words for where a job stands."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backoff import RetryPolicy
from gateway.durations import Duration
from gateway.jobs import Callback, Cause, Options, Settlement, Status, pack_body, pack_long_body, unpack_body
from gateway.submission import Caller

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(payload=TEXTS, tags=st.lists(TEXTS, max_size=4), timeout=st.none() | st.floats(0.001, 1e6))
def test_body_comes_back_as_it_went_in(payload: str, tags: list[str], timeout: float | None) -> None:
    options = Options(timeout=timeout, tags=tuple(tags))
    packed = pack_body(options, payload.encode()).encode()
    assert unpack_body(packed) == (options, payload.encode())
    assert b"".join(pack_long_body(options, payload.encode())) == packed


def test_body_keeps_every_option() -> None:
    retry = RetryPolicy(policy="exponential", max_attempts=7, base=Duration(0.25), cap=Duration(60))
    callback = Callback("https://example.com/hook", ("job.dead",), "whsec_c2VjcmV0")
    cause = Cause("j", "t", "dead", 3, 99, "fatal", msgspec.Raw(b'{"n":1.0}'))
    parent = Options(callback=callback, tags=("a",))
    options = Options(1.5, retry, callback, ("a", "ä\n"), "00-0-0-00", cause, parent)
    back, payload = unpack_body(pack_body(options, b"\n\n{}").encode())
    assert payload == b"\n\n{}"
    assert back.cause is not None
    assert bytes(back.cause.error) == b'{"n":1.0}'
    empty = Cause("", "", "", 0, 0)
    assert msgspec.structs.replace(back, cause=empty) == msgspec.structs.replace(options, cause=empty)


def test_body_without_options_costs_one_byte() -> None:
    assert pack_body(Options(), b"[1]") == "\n[1]"


def test_body_that_is_not_utf8_is_refused() -> None:
    for pack in (pack_body, pack_long_body):
        with pytest.raises(UnicodeDecodeError):
            pack(Options(), b'"\xff"')


def test_settlement_is_an_array_in_the_order_of_the_script() -> None:
    packed = msgspec.msgpack.encode(Settlement("j", "1:d.1", "retry", 5, "", "r", "e"))
    assert msgspec.msgpack.decode(packed) == ["j", "1:d.1", "retry", 5, "", "r", "e"]


def test_three_statuses_are_ends() -> None:
    assert {status for status in Status if status.finished} == {Status.SUCCEEDED, Status.DEAD, Status.CANCELLED}


def test_caller_does_not_show_the_secret_of_its_callback() -> None:
    assert repr(Caller("k-1", callback=Callback("https://shop.example/", secret="whsec_c2VjcmV0"))) == "Caller('k-1')"
