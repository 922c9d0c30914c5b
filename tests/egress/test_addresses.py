from __future__ import annotations

import re
from ipaddress import ip_address

import pytest

from gateway.egress.addresses import DENIED_V4, DENIED_V6, AddressDenied, check_address, is_public, parse_allow
from tests.egress.spellings import ADDRESSES

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450:4001:80b::200e",
    "3ffe::1",
]


@pytest.mark.parametrize("text", ADDRESSES)
def test_address_is_denied_when_it_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))
    with pytest.raises(AddressDenied):
        check_address(text, parse_allow([]))


@pytest.mark.parametrize("text", PUBLIC)
def test_address_passes_when_it_is_public(text: str) -> None:
    assert is_public(ip_address(text))
    check_address(text, parse_allow([]))


@pytest.mark.parametrize("network", [*DENIED_V4, *DENIED_V6], ids=str)
def test_both_ends_of_a_network_are_denied(network: object) -> None:
    assert network in (*DENIED_V4, *DENIED_V6)
    first, last = network[0], network[-1]  # type: ignore[index]
    assert not is_public(first)
    assert not is_public(last)


def test_denial_prints_the_line_to_add() -> None:
    with pytest.raises(AddressDenied, match=r'10\.1\.2\.3 .* add "10\.1\.2\.3/32" to \[egress\] allow'):
        check_address("::ffff:10.1.2.3", parse_allow([]))
    with pytest.raises(AddressDenied, match=r'billing resolves to fd00::1, .* add "fd00::1/128"'):
        check_address("fd00::1", parse_allow([]), name="billing")


def test_allow_list_opens_exactly_what_it_names() -> None:
    allowed = parse_allow(["10.1.0.0/16", "192.168.7.9", "fd00:1::/32", "billing.internal"])
    for text in ("10.1.0.0", "10.1.255.255", "192.168.7.9", "fd00:1::5", "::ffff:10.1.2.3"):
        check_address(text, allowed)
    for text in ("10.0.255.255", "10.2.0.0", "192.168.7.8", "fd00:2::5", "127.0.0.1"):
        with pytest.raises(AddressDenied):
            check_address(text, allowed, name="billing.internal")


def test_names_are_kept_as_they_will_be_asked_for() -> None:
    assert parse_allow(["Billing.Internal.", "bücher.example"]).names == {"billing.internal", "xn--bcher-kva.example"}


@pytest.mark.parametrize(
    ("entry", "mend"),
    [
        ("10.1.2.3/16", 'write "10.1.0.0/16"'),
        ("fd00::1/64", 'write "fd00::/64"'),
        ("::ffff:10.0.0.0/104", "write it as IPv4"),
        ("http://billing.internal", "not a network or a host name"),
        ("billing.internal:8080", "not a network or a host name"),
        ("10.1.0.0/33", "not a network or a host name"),
        ("10.1", "not a network or a host name"),
        ("*.internal", "not a network or a host name"),
        ("", "not a network or a host name"),
        ("a b", "not a network or a host name"),
        ("user@host", "not a network or a host name"),
    ],
)
def test_allow_entry_is_refused_with_its_mend(entry: str, mend: str) -> None:
    with pytest.raises(ValueError, match=re.escape(mend)) as caught:
        parse_allow([entry])
    assert repr(entry) in str(caught.value)
