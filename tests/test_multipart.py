"""Multipart forms as others write them: httpx, Python's email, a browser, Go."""

from __future__ import annotations

from urllib.request import urlopen

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import Rejected
from gateway.schemes.multipart import MAX_PARTS, Part, read_multipart

PNG = b"\x89PNG\r\n\x1a\n\x00\r\n--\xff"
GO = (
    b'--b1\r\nContent-Disposition: form-data; name="a\\"b"\r\n\r\nx\r\n--b1\r\n'
    b'Content-Disposition: form-data; name="f"; filename="c\\\\d.txt"\r\n'
    b"Content-Type: text/plain; charset=utf-8\r\n\r\n\r\n--b1--\r\n"
)
BROWSER = (
    b"------WebKitFormBoundary7MA4YWxkTrZu0gW\r\n"
    b'Content-Disposition: form-data; name="f"; filename="\xc3\xa4 %22.png"\r\n'
    b"Content-Type: image/png\r\n\r\n" + PNG + b"\r\n------WebKitFormBoundary7MA4YWxkTrZu0gW--\r\n"
)


def test_texts_and_files_of_httpx() -> None:
    request = httpx.Request(
        "POST", "http://x/", data={"to": "a@b.example", "text": "ä\r\n--😀"}, files={"f": ("ä b.png", PNG, "image/png")}
    )
    to, text, file = read_multipart(request.read()) or ()
    assert (to.value, text.value) == ("a@b.example", "ä\r\n--😀")
    assert (file.filename, file.content, file.content_type) == ("ä b.png", PNG, "image/png")
    assert file.value.startswith("data:image/png;name=%C3%A4%20b.png;base64,")
    with urlopen(file.value) as found:
        assert found.read() == PNG


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'--===============827410==\r\nContent-Type: text/x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
         b"--===============827410==--\r\n", (Part("a", b"1", None, "text/x"),)),
        (GO, (Part('a"b', b"x"), Part("f", b"", "c\\d.txt", "text/plain; charset=utf-8"))),
        (BROWSER, (Part("f", PNG, "ä %22.png", "image/png"),)),
        (b"--b\r\ncontent-disposition:form-data; name=a; filename*=UTF-8''%c3%a4.txt\r\n\r\n1\r\n--b--",
         (Part("a", b"1", "ä.txt"),)),
        (b"--b\r\nContent-Disposition: form-data; name=a; filename*=iso-8859-1'en'%E4\r\n\r\n1\r\n--b--",
         (Part("a", b"1", "ä"),)),
    ],
)  # fmt: skip
def test_other_spellings(body: bytes, found: tuple[Part, ...]) -> None:
    assert read_multipart(body) == found


@pytest.mark.parametrize("body", [b"", b"{}", b"a=1&b=2", b"--a=1", b"--\r\n", b"--" + b"b" * 71 + b"\r\n", b"-- \r\n"])
def test_body_of_another_kind_is_none(body: bytes) -> None:
    assert read_multipart(body) is None


@pytest.mark.parametrize(
    "body",
    [
        GO[:-6],
        GO.replace(b'name="f"', b'nam="f"'),
        GO.replace(b'name="f"', b'name=""'),
        GO.replace(b"form-data", b"attachment"),
        b"--b\r\n\r\nno head\r\n--b--",
        b"--b\r\nContent-Disposition: form-data; name=a; x=" + b"x" * 9000 + b"\r\n\r\n1\r\n--b--",
        b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1" + b"\r\n--b" * (MAX_PARTS + 1) + b"--",
    ],
)
def test_body_that_is_cut_off_or_wrong_is_refused(body: bytes) -> None:
    with pytest.raises(Rejected, match="body"):
        read_multipart(body)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300))
def test_any_body_raises_only_rejected(more: bytes) -> None:
    for body in (b"--b\r\n" + more, GO.replace(b"x", more), GO.replace(b'"f"', more)):
        try:
            read_multipart(body)
        except Rejected:
            continue
