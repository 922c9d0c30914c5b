"""URLs of one server, of Sentinels and of a Cluster, and what is said of wrong ones."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from redis.asyncio.connection import Connection, parse_url

from gateway.redis_url import SCHEMES, parse_redis_url


@pytest.mark.parametrize("text", ["redis://h:1/0", "rediss://u:p@h/2?ssl_cert_reqs=none", "unix:///tmp/s.sock?db=1"])
def test_one_server_is_left_as_it_is(text: str) -> None:
    url = parse_redis_url(text)
    assert (url.kind, url.text, url.partitions) == ("server", text, 1)


@pytest.mark.parametrize("scheme", ["redis", "rediss", "unix"])
def test_every_option_that_is_taken_is_one_of_the_library(scheme: str) -> None:
    with pytest.raises(ValueError, match="none of") as caught:
        parse_redis_url(f"{scheme}:///?nope")
    names = str(caught.value).partition(": ")[2].partition(";")[0].split(", ")
    fits = {"protocol": "2", "ssl_cert_reqs": "required", "ssl_min_version": "771"}
    fitting = {name: fits.get(name, "1") for name in names}
    url = f"{scheme}://{'/s.sock' if scheme == 'unix' else 'localhost'}?{urlencode(fitting)}"
    assert parse_redis_url(url).text == url
    options: dict[str, Any] = dict(parse_url(url))
    options.pop("max_connections")
    kind = options.pop("connection_class", Connection)
    assert kind(**options) is not None


def test_sentinels_have_a_master_and_a_login_of_their_own() -> None:
    url = parse_redis_url(
        "rediss+sentinel://u%40x:p%2Fw@one:26380,two/jobs%20eu/3?ssl_ca_certs=/ca.pem&sentinel_password=s%26t"
    )
    assert (url.kind, url.addresses, url.master, url.partitions) == (
        "sentinel",
        (("one", 26380), ("two", 26379)),
        "jobs eu",
        1,
    )
    server = dict(parse_url(url.server_url(("h", 5))))
    assert (server["username"], server["password"], server["db"]) == ("u@x", "p/w", 3)
    assert (server["host"], server["port"], server["ssl_ca_certs"]) == ("h", 5, "/ca.pem")
    sentinel = dict(parse_url(url.sentinel_url(url.addresses[0])))
    assert (sentinel.get("username", ""), sentinel["password"], sentinel["ssl_ca_certs"]) == ("", "s&t", "/ca.pem")


def test_cluster_has_sixteen_partitions_and_takes_ipv6() -> None:
    url = parse_redis_url("redis+cluster://:pw@[::1]:7000,[fe80::2],three")
    assert (url.kind, url.partitions) == ("cluster", 16)
    assert url.addresses == (("::1", 7000), ("fe80::2", 6379), ("three", 6379))
    assert dict(parse_url(url.server_url(url.addresses[0])))["host"] == "::1"
    assert "pw" not in repr(url)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("http://h", SCHEMES[0]),
        ("redis+sentinel://h:1,h:2", "the name of the master"),
        ("redis+sentinel://h:1/jobs/zero", "'zero'"),
        ("redis+sentinel://h:1,:2/jobs", "host 2"),
        ("redis+cluster://h:0", "host 1"),
        ("redis+cluster://h:70000", "host 1"),
        ("redis+cluster://", "host 1"),
        ("redis+cluster://h:1/4", "only database 0"),
        ("redis+cluster://u:hunt@er2@h:1", "%40"),
        ("redis+cluster://h:1?nope=1", "option 1"),
        ("redis+sentinel://h:1/jobs/\u00b2", "not the number"),
        ("redis+sentinel://h:1/jobs?sentinel_password=x&db=one", "option db"),
        ("redis://h:70000", "not host:port"),
        ("redis://h:0", "not the URL of a server"),
        ("redis://h:port", "not host:port"),
        ("redis://[::1/0", "not host:port"),
        ("redis://h/zero", "not the number of a database"),
        ("redis://h/\u0663", "not the number of a database"),
        ("redis://h/0?nope=1", "option 1 (behind the ?)"),
        ("redis://h/0?decode_responses=true", "option 1 (behind the ?)"),
        ("rediss://h/0?ssl_ca_certs=/ca.pem&db=\u00b2", "option db is not a whole number"),
        ("redis://h/0?socket_timeout=nan", "option socket_timeout is not a number of seconds"),
        ("redis://h/0?ssl_ca_certs=/ca.pem", "option 1 (behind the ?)"),
        ("rediss://h/0?ssl_nope=1", "option 1 (behind the ?)"),
        ("unix:///s.sock?socket_keepalive=true", "option 1 (behind the ?)"),
        ("unix://?db=1", "unix:///path"),
    ],
)
def test_wrong_url_says_what_is_wrong_and_shows_no_password(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=re.escape(part)) as caught:
        parse_redis_url(text)
    assert "er2" not in str(caught.value)
