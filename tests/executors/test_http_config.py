"""Every fault of an http target is refused where it is configured, with its field and never with a secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from executors.http import HttpExecutor
from gateway import ConfigError
from gateway.registry.targets import make_target
from gateway.settings import SecretSource, read_target

URL = "https://billing.example/invoice"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
LATER = "2099-01-01T00:00:00Z"


def configure(table: dict[str, Any], *, source: SecretSource | None = None) -> Any:
    settings = read_target("t", {"executor": "http", "url": URL} | table, "gateway.toml: targets.t", secrets=source)
    executor = HttpExecutor()
    target = make_target("t", settings, {"http": executor}, lanes=("default",), secrets=source)
    executor.check(target.config)
    return target.config


@pytest.mark.parametrize(
    ("table", "field", "why"),
    [
        ({"url": "ftp://a.example/"}, "url", "http:// or https://"),
        ({"url": "http://u:p@a.example/"}, "url", "no user or password"),
        ({"url": "http://a.example:25/"}, "url", "port 25"),
        ({"url": "http://a.example/#x"}, "url", "fragment"),
        ({"url": "http://127.1/"}, "url", "IPv4"),
        ({"method": "TRACE"}, "method", "POST, PUT, PATCH, DELETE, GET"),
        ({"headers": {"Host": "x"}}, "headers", "'Host' is set by the gateway"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "headers", "set by the gateway"),
        ({"headers": {"webhook-id": "x"}}, "headers", "set by the gateway"),
        ({"headers": {"a b": "x"}}, "headers", "not a header name"),
        ({"headers": {"a": "x\r\nb: c"}}, "headers", "visible ASCII"),
        ({"headers": {f"x-{n}": "1" for n in range(40)}}, "headers", "at most 32"),
        ({"secret": "whsec_%%%"}, "secret", "not a Standard Webhooks secret"),
        ({"secret": "whsec_QUJD"}, "secret", "3 bytes"),
        ({"secret": ""}, "secret", "empty"),
        ({"previous_secrets": [{"secret": SECRET}]}, "previous_secrets", "goes with secret"),
        ({"secret": SECRET, "previous_secrets": [{"secret": "whsec_QUJD"}]}, "previous_secrets[0].secret", "3 bytes"),
        (
            {"secret": SECRET, "previous_secrets": [{"secret": SECRET, "until": "soon"}]},
            "previous_secrets[0].until",
            "RFC",
        ),
        ({"secret": SECRET, "previous_secrets": [{"secret": SECRET}] * 9}, "previous_secrets", "at most 8"),
        ({"auth": {"type": "digest"}}, "auth.type", "bearer, basic, hmac"),
        ({"auth": {"type": "bearer"}}, "auth", "token"),
        ({"auth": {"type": "bearer", "token": "a b"}}, "auth.token", "visible ASCII"),
        ({"auth": {"type": "basic", "username": "a:b", "password": "x"}}, "auth.username", "colon"),
        ({"auth": {"type": "hmac", "name": "webhook-signature", "secret": "x"}}, "auth.name", "set by the gateway"),
        ({"auth": {"type": "hmac", "name": "X-Sig", "secret": "x", "algorithm": "md5"}}, "auth.algorithm", "md5"),
        ({"auth": {"type": "bearer", "token": "x"}, "headers": {"Authorization": "y"}}, "headers", "set by auth"),
        ({"body": "xml"}, "body", "cloudevents-structured"),
        ({"body": "envelope", "method": "GET"}, "body", "GET sends no body"),
        ({"body": "cloudevents-binary", "headers": {"ce-type": "x"}}, "headers", "ce-type"),
        ({"event_type": "a b"}, "event_type", "visible ASCII"),
        ({"event_source": ""}, "event_source", "visible ASCII"),
        ({"success_statuses": []}, "success_statuses", "empty"),
        ({"success_statuses": ["2xy"]}, "success_statuses", "2xy"),
        ({"retry_statuses": [199]}, "retry_statuses", "199"),
        ({"retry_statuses": ["504-500"]}, "retry_statuses", "504-500"),
        ({"fatal_statuses": ["20x"]}, "fatal_statuses", "20x"),
        ({"fatal_statuses": [204]}, "success_statuses", "204 is in fatal_statuses already"),
        ({"connect_timeout": "2m"}, "connect_timeout", "between 0.05 and 60"),
        ({"ca": "not a certificate"}, "ca", "PEM"),
        ({"job_may": ["body"]}, "job_may[0]", "headers, method, path, query"),
        ({"urll": URL}, "", 'unknown key "urll"; did you mean "url"'),
    ],
)
def test_fault_is_refused_with_its_field_and_the_mend(table: dict[str, Any], field: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configure(table)
    assert caught.value.place == ("gateway.toml: targets.t" + (f".{field}" if field else ""))
    assert why in caught.value.detail
    assert "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" not in str(caught.value)


def test_file_of_the_servers_may_not_be_named_over_the_api() -> None:
    for field in ("client_cert", "client_key"):
        with pytest.raises(ConfigError, match="only the configuration file may name a file") as caught:
            configure({field: "/etc/passwd"})
        assert caught.value.place.endswith(field)
    with pytest.raises(ConfigError, match="only the configuration file may name a variable or file"):
        configure({"ca": {"file": "/etc/passwd"}})


def test_certificate_file_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    source = SecretSource({}, tmp_path)
    with pytest.raises(ValueError, match=r"cannot read .*cert\.pem"):
        configure({"client_cert": "cert.pem"}, source=source)
    (tmp_path / "cert.pem").write_text("no certificate")
    with pytest.raises(ValueError, match="not PEM, or no pair"):
        configure({"client_cert": "cert.pem"}, source=source)
    with pytest.raises(ConfigError, match="goes with client_cert"):
        configure({"client_key": "cert.pem"}, source=source)


def test_secrets_are_in_no_representation_of_a_config() -> None:
    config = configure(
        {
            "secret": SECRET,
            "previous_secrets": [{"secret": SECRET, "until": LATER}],
            "auth": {"type": "bearer", "token": "tok-4711"},
        }
    )
    assert "MfKQ9r8" not in repr(config)
    assert "tok-4711" not in repr(config)
