from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.egress.rules import check_framing, check_headers, check_url


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("https://example.com", "https://example.com"),
        ("HTTP://Example.COM:8080/a%2Fb?c=d&e", "http://example.com:8080/a%2Fb?c=d&e"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("http://my_service:8000/", "http://my_service:8000/"),
        ("http://example.com./", "http://example.com./"),
        ("http://10.1.2.3:9000/", "http://10.1.2.3:9000/"),
        ("http://[2001:DB8::1]:9000/", "http://[2001:db8::1]:9000/"),
        ("http://①②⑦.⓪.⓪.①/", "http://127.0.0.1/"),
        ("http://127。0。0。1/", "http://127.0.0.1/"),
        ("https://example.com/in?mail=a@b.example", "https://example.com/in?mail=a@b.example"),
    ],
)
def test_url_is_parsed_once_and_shown_as_it_is_sent(url: str, parsed: str) -> None:
    assert str(check_url(url)) == parsed


@pytest.mark.parametrize("url", ["ftp://u:hush@a.example", "u:hush@a.example", "https:/u:hush@a.example/"])
def test_url_with_another_beginning_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="starts with http") as refused:
        check_url(url)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "starts with http"),
        ("example.com/in", "starts with http"),
        ("//example.com/in", "starts with http"),
        ("http:example.com", "starts with http"),
        ("ftp://example.com", "starts with http"),
        ("tcp://127.0.0.1:6379", "starts with http"),
        ("ws://example.com", "starts with http"),
        ("file:///etc/passwd", "starts with http"),
        ("http:///in", "names no host"),
        ("http://:8080/", "host"),
        ("http://user:pw@example.com/", "user or password"),
        ("http://@example.com/", "user or password"),
        ("http://user@127.0.0.1?x", "user or password"),
        ("http://example.com/#part", "fragment"),
        ("http://example.com#@127.0.0.1/", "fragment"),
        ("http://example.com\\@127.0.0.1/", "backslash"),
        ("http://exa mple.com/", "spaces"),
        ("http://example.com/a\r\nHost: b", "control"),
        ("http://example.com/\x00", "control"),
        ("http://[fe80::1%eth0]/", "zone"),
        ("http://[fe80::1%25eth0]/", "zone"),
        ("http://[v1.fe]/", "not an IPv6 address"),
        ("http://[::1/", "not a URL"),
        ("http://127.0.0.%31/", "not a host name"),
        ("http://ex%61mple.com/", "not a host name"),
        ("http://a..b/", "not a host name"),
        ("http://-a.example/", "not a host name"),
        ("http://example.com../", "not a host name"),
        (f"http://{'a' * 64}.example/", "not a host name"),
        (f"http://{'.'.join(['a' * 50] * 6)}/", "not a host name"),
        ("http://2130706433/", "not an IPv4 address"),
        ("http://127.1/", "not an IPv4 address"),
        ("http://0177.0.0.1/", "not an IPv4 address"),
        ("http://0x7f.1/", "not an IPv4 address"),
        ("http://0x7f000001/", "not an IPv4 address"),
        ("http://127.0.0.1./", "not an IPv4 address"),
        ("http://1.2.3.4.5/", "not an IPv4 address"),
        ("http://example.com:0/", "port 0"),
        ("http://example.com:25/", "port 25"),
        ("http://example.com:99999/", "not a URL"),
        ("http://example.com/" + "a" * 2048, "2048"),
    ],
)
def test_url_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_url(url)


@given(st.text(max_size=60))
@example("http://[")
@example("http://xn--/")
@example("http://a\u200bb.example")
@example("http://\ud800/")
def test_url_check_raises_nothing_but_value_error(text: str) -> None:
    for url in (text, "http://" + text, "http://a/" + text):
        try:
            parsed = check_url(url)
        except ValueError:
            continue
        assert parsed.scheme in ("http", "https")
        assert parsed.raw_host


def test_headers_pass_when_they_are_plain() -> None:
    check_headers({"Authorization": "Bearer abc", "X-Tenant": "a b\tc", "content-type": "application/json", "x-e": ""})


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade"),
        *("Expect", "Proxy-Authorization", "Proxy-Anything", "Accept-Encoding", "Webhook-Id", "webhook-signature"),
        *("Gateway-Attempt", "Idempotency-Key", "Traceparent"),
    ],
)
def test_header_is_refused_when_the_gateway_writes_it(name: str) -> None:
    with pytest.raises(ValueError, match="set by the gateway"):
        check_headers({name: "x"})


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"": "x"}, "not a header name"),
        ({"a b": "x"}, "not a header name"),
        ({"a:": "x"}, "not a header name"),
        ({"ä": "x"}, "not a header name"),
        ({"a\r\nb": "x"}, "not a header name"),
        ({"a": "x\r\nHost: evil"}, "visible ASCII"),
        ({"a": "x\n"}, "visible ASCII"),
        ({"a": "\x00"}, "visible ASCII"),
        ({"a": "ä"}, "visible ASCII"),
        ({"a": " x"}, "visible ASCII"),
        ({"a": "1", "A": "2"}, "twice"),
        ({f"x-{number}": "" for number in range(33)}, "at most 32"),
        ({"a": "x" * 8192}, "longer than 8192"),
    ],
)
def test_headers_are_refused_with_the_reason(headers: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_headers(headers)


def test_framing_is_refused_and_our_own_headers_pass() -> None:
    check_framing([("webhook-id", "1"), ("gateway-attempt", "1"), ("idempotency-key", "1")])
    with pytest.raises(ValueError, match="Transfer-Encoding"):
        check_framing([("a", "b"), ("Transfer-Encoding", "chunked")])


def test_importing_gateway_does_not_load_aiohttp() -> None:
    code = "import sys, gateway; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
