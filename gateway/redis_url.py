"""Where Redis is: one server, a primary that Sentinels name, or a Cluster, written as one URL.

    redis://host:port/db    rediss://…    unix:///path?db=0        one server
    redis+sentinel://host:port,host:port/<master>/<db>             whichever server the Sentinels name
    redis+cluster://host:port,host:port                            the nodes to ask for the others

`rediss+sentinel` and `rediss+cluster` are the same over TLS. `user:password@` stands before the hosts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

Kind = Literal["server", "sentinel", "cluster"]
Address = tuple[str, int]

SCHEMES = ("redis://", "rediss://", "unix://", "redis+sentinel://", "redis+cluster://")
CLUSTER_PARTITIONS = 16
"""What a Cluster's data is spread over where nothing else is said; elsewhere one partition is best."""

_MANY = re.compile(r"(rediss?)\+(sentinel|cluster)://(?:([^@/?]*)@)?([^/?]*)(?:/([^?]*))?(?:\?(.*))?\Z", re.DOTALL)
_PORTS = {"sentinel": 26379, "cluster": 6379}
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")
_WHOLE = ("db", "protocol", "max_connections", "health_check_interval", "socket_read_size")
_SECONDS = ("socket_timeout", "socket_connect_timeout")
_OTHERS = ("username", "password", "client_name", "retry_on_timeout")
_TLS = (
    *("ssl_ca_certs", "ssl_ca_path", "ssl_ca_data", "ssl_certfile", "ssl_keyfile", "ssl_password"),
    *("ssl_cert_reqs", "ssl_check_hostname", "ssl_ciphers", "ssl_min_version"),
)
_ESCAPES = "a / ? # @ or : of a password is written %2F %3F %23 %40 %3A"


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """A URL in its parts; `addresses` are Sentinels or Cluster nodes, empty for one server."""

    kind: Kind
    text: str = field(repr=False)
    addresses: tuple[Address, ...] = ()
    master: str = ""
    database: int = 0
    tls: bool = False
    login: str = field(default="", repr=False)
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    sentinel_login: str = field(default="", repr=False)

    @property
    def partitions(self) -> int:
        """How many partitions the data is spread over where nobody says."""
        return CLUSTER_PARTITIONS if self.kind == "cluster" else 1

    @property
    def shown(self) -> str:
        """Where it is, without user, password and options: `host:port/db`, a socket's path, or the hosts of many."""
        if self.addresses:
            hosts = ",".join(f"{_bracketed(host)}:{port}" for host, port in self.addresses)
            return f"{hosts}/{self.master}/{self.database}" if self.kind == "sentinel" else hosts
        parts = urlsplit(self.text)
        if parts.scheme == "unix":
            return parts.path
        database = parts.path.strip("/") or dict(parse_qsl(parts.query)).get("db", "0")
        return f"{_bracketed(parts.hostname or 'localhost')}:{parts.port or 6379}/{database}"

    def server_url(self, address: Address) -> str:
        """The URL of one of the servers, as redis-py reads it."""
        return self._url(address, self.login, str(self.database))

    def sentinel_url(self, address: Address) -> str:
        """The URL of one of the Sentinels, which have a login of their own."""
        return self._url(address, self.sentinel_login, "0")

    def _url(self, address: Address, login: str, database: str) -> str:
        host, port = address
        options = f"?{urlencode(self.options)}" if self.options else ""
        scheme = "rediss" if self.tls else "redis"
        return f"{scheme}://{login and login + '@'}{_bracketed(host)}:{port}/{database}{options}"


def parse_redis_url(text: str) -> RedisUrl:
    """The URL in its parts; ValueError says what is wrong with it, and shows no password."""
    if text.startswith(SCHEMES[:3]):
        _check_server(text)
        return RedisUrl("server", text)
    found = _MANY.match(text)
    if found is None:
        raise ValueError(f"not a Redis URL; begin with one of: {', '.join(SCHEMES)}")
    scheme, kind, login, hosts, path, query = found.groups(default="")
    addresses = tuple(_address(host, at, _PORTS[kind]) for at, host in enumerate(hosts.split(","), 1))
    options = tuple(parse_qsl(query, keep_blank_values=True))
    own = _SENTINEL_OPTIONS if kind == "sentinel" else ()
    _check_options(options, (*own, "socket_keepalive", *(_TLS if scheme == "rediss" else ())))
    sentinel = dict(each for each in options if each[0] in _SENTINEL_OPTIONS)
    master, database = _master(path) if kind == "sentinel" else ("", _no_path(path))
    url = RedisUrl(
        kind="sentinel" if kind == "sentinel" else "cluster",
        text=text,
        addresses=addresses,
        master=master,
        database=database,
        tls=scheme == "rediss",
        login=login,
        options=tuple(each for each in options if each[0] not in _SENTINEL_OPTIONS),
        sentinel_login=_login(sentinel.get("sentinel_username", ""), sentinel.get("sentinel_password", "")),
    )
    _check_server(url.server_url(addresses[0]))
    return url


def _check_server(text: str) -> None:
    """Raises ValueError for what redis-py would overlook, or fail at in its own words, which show parts of the URL."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(f"its host and port are not host:port; {_ESCAPES}") from None
    if port == 0 or parts.fragment or (parts.scheme == "unix" and not parts.path):
        raise ValueError(f"not the URL of a server, redis://host:port/db or unix:///path?db=0; {_ESCAPES}")
    if parts.scheme != "unix" and re.fullmatch(r"/?|/\d{1,9}", parts.path, re.ASCII) is None:
        raise ValueError(f"what stands behind its host is not the number of a database; {_ESCAPES}")
    own = {"redis": ("socket_keepalive",), "rediss": ("socket_keepalive", *_TLS)}.get(parts.scheme, ())
    _check_options(parse_qsl(parts.query, keep_blank_values=True), own)


def _check_options(options: Iterable[tuple[str, str]], own: Sequence[str]) -> None:
    """An option's name is not shown: behind a ? that was not escaped it is half of a password."""
    known = (*_WHOLE, *_SECONDS, *_OTHERS, *own)
    for at, (name, value) in enumerate(options, 1):
        if name not in known:
            raise ValueError(f"its option {at} (behind the ?) is none of: {', '.join(known)}; {_ESCAPES}")
        if name in _WHOLE and re.fullmatch(r"\d{1,9}", value, re.ASCII) is None:
            raise ValueError(f"its option {name} is not a whole number")
        if name in _SECONDS and re.fullmatch(r"\d{1,9}(\.\d+)?", value, re.ASCII) is None:
            raise ValueError(f"its option {name} is not a number of seconds")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _address(text: str, at: int, default_port: int) -> Address:
    """`host`, `host:port`, `[v6]` or `[v6]:port`; the fault does not show it, for it may be half of a password."""
    bracketed = re.match(r"\[([0-9A-Fa-f:.%]+)\](?::(\d{1,5}))?\Z", text)
    plain = re.match(r"([^:@\[\]\s]+)(?::(\d{1,5}))?\Z", text)
    found = bracketed or plain
    if found is None or not 0 < int(found[2] or default_port) < 65536:
        raise ValueError(
            f"its host {at} is not host:port; write them with commas between (one:6379,two:6379), a login once before "
            f"them all; {_ESCAPES}"
        )
    return found[1], int(found[2] or default_port)


def _master(path: str) -> tuple[str, int]:
    master, _, database = path.partition("/")
    if not master:
        raise ValueError("the name of the master is missing; write redis+sentinel://host:port,host:port/<master>/<db>")
    if database and re.fullmatch(r"\d{1,9}", database, re.ASCII) is None:
        raise ValueError(f"{database[:16]!r} is not the number of a database; leave it out for 0")
    return unquote(master), int(database or 0)


def _no_path(path: str) -> int:
    if path not in ("", "0"):
        raise ValueError("a Cluster has only database 0; write redis+cluster://host:port,host:port and no path")
    return 0


def _login(username: str, password: str) -> str:
    return f"{quote(username, safe='')}:{quote(password, safe='')}" if username or password else ""
