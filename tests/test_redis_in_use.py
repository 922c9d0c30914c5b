"""Which Redis is in use is logged: where it is and what named it, and nothing of its login."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from gateway.cli.environment import tell_redis
from gateway.redis_url import parse_redis_url
from gateway.settings import load


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost", "localhost:6379/0"),
        ("rediss://me:s3cret@redis.example:6380/2?password=s3cret", "redis.example:6380/2"),
        ("redis://[::1]:7000?db=3", "[::1]:7000/3"),
        ("unix://me:s3cret@/run/redis.sock?db=1&password=s3cret", "/run/redis.sock"),
        ("redis+sentinel://:s3cret@one,two:26380/main/4?sentinel_password=s3cret", "one:26379,two:26380/main/4"),
        ("redis+cluster://me:s3cret@one:7000,[::2]:7001", "one:7000,[::2]:7001"),
    ],
)
def test_redis_is_shown_by_where_it_is(url: str, shown: str) -> None:
    assert parse_redis_url(url).shown == shown


@pytest.mark.parametrize("password", ["s3:cret", "s3@cret"])
def test_half_a_password_is_not_shown_when_it_was_not_escaped(password: str) -> None:
    assert parse_redis_url(f"redis://:{password}@redis.example:6379/0").shown == "redis.example:6379/0"


@pytest.mark.parametrize("password", ["s3/cret", "123/cret", "s3?cret", "123?cret", "s3#cret", "123#cret", "s3[cret"])
@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+sentinel", "rediss+cluster"])
def test_password_that_was_not_escaped_is_refused_and_not_shown(scheme: str, password: str) -> None:
    with pytest.raises(ValueError, match="%2F %3F %23") as caught:
        parse_redis_url(f"{scheme}://:{password}@redis.example:6379/0")
    assert not any(part in str(caught.value) for part in ("cret", "s3", "123"))


@pytest.mark.parametrize(
    ("environ", "source"),
    [
        ({"REDIS_URL": "redis://me:s3cret@one:7000/5"}, "REDIS_URL"),
        ({"REDIS_URL": "redis://two", "GATEWAY_REDIS_URL": "redis://:s3cret@one:7000/5"}, "GATEWAY_REDIS_URL"),
    ],
)
def test_variable_that_named_the_redis_is_logged(
    environ: dict[str, str], source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GATEWAY_REDIS_URL", raising=False)
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    with capture_logs() as lines:
        tell_redis(load(environ, tmp_path))
    assert lines == [{"event": "Redis in use", "log_level": "info", "at": "one:7000/5", "source": source}]


def test_folder_of_the_embedded_server_is_logged(tmp_path: Path) -> None:
    with capture_logs() as lines:
        tell_redis(msgspec.structs.replace(load({}, tmp_path), redis_url=None), tmp_path / "data")
    (line,) = lines
    assert line == {"event": "data in the embedded Valkey", "log_level": "info", "folder": str(tmp_path / "data")}
