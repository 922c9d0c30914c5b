"""TLS of one target: its own authority, and the certificate that it wants to see."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from executors.http import HttpConfig, HttpExecutor
from gateway import ConfigFile, Fatal, Retry, Secret
from gateway.egress.client import EgressClient
from gateway.testing.executors import make_attempt
from tests.egress.receiver import Receiver, always, answer, resolving
from tests.egress.test_connector import own_certificate

LOOKUP = resolving(pay_internal=["127.0.0.1"], other_internal=["127.0.0.1"])


async def call(http: EgressClient, url: str, *, ca: str, client: Path | None = None) -> object:
    cert = None if client is None else ConfigFile(client)
    config = HttpConfig(url=url, ca=Secret(ca), client_cert=cert)
    return await HttpExecutor().execute(make_attempt(config, http=http))


async def test_targets_own_authority_is_trusted_for_it_alone(tmp_path: Path) -> None:
    server, path = own_certificate(tmp_path)
    pem = path.read_text()
    async with (
        Receiver(always(answer())) as plain,
        Receiver(always(answer()), tls=server) as receiver,
        EgressClient(["127.0.0.0/8"], lookup=LOOKUP) as http,
    ):
        await call(http, f"https://pay.internal:{receiver.port}/", ca=f"# Türkçe kök sertifikası\n{pem}")
        untrusting = HttpConfig(url=f"https://pay.internal:{receiver.port}/")
        with pytest.raises(Retry) as caught:
            await HttpExecutor().execute(make_attempt(untrusting, http=http))
        assert caught.value.type == "tls"
        with pytest.raises(Retry) as caught:
            await call(http, f"https://other.internal:{receiver.port}/", ca=pem)
        assert caught.value.type == "tls"
        await call(http, f"http://pay.internal:{plain.port}/", ca=pem)
    assert len(receiver.requests) == 1


async def test_client_certificate_is_shown_and_its_file_read_again_when_it_changes(tmp_path: Path) -> None:
    server, path = own_certificate(tmp_path)
    pem = path.read_text()
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(path)
    shown = tmp_path / "shown.pem"
    shown.write_text(pem)
    async with (
        Receiver(always(answer()), tls=server) as receiver,
        EgressClient(["127.0.0.0/8"], lookup=LOOKUP) as http,
    ):
        url = f"https://pay.internal:{receiver.port}/"
        with pytest.raises(Retry):
            await call(http, url, ca=pem)
        await call(http, url, ca=pem, client=shown)
        shown.write_text("broken")
        os.utime(shown, ns=(1, 1))
        with pytest.raises(Fatal) as caught:
            await call(http, url, ca=pem, client=shown)
        assert caught.value.type == "config"
