"""A server that wants a login, gives one few rights, or speaks TLS only."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gateway.errors import StoreUnavailable
from gateway.store import Store
from tests.dispatch.running import dispatching, settings_for
from tests.servers import Server, free_ports
from tests.topology.certificates import make_certificates

REDIS = shutil.which("redis-server")
DOCS = Path(__file__).parents[2] / "docs" / "redis.md"


def rights() -> list[str]:
    """What docs/redis.md gives a user of its own."""
    line = next(line for line in DOCS.read_text().splitlines() if line.startswith("ACL SETUSER gateway "))
    return line.replace("a-long-password", "p@ss/word").split()


async def test_user_with_the_rights_of_the_page_can_do_all_that_is_needed(namespace: str, tmp_path: Path) -> None:
    with Server(tcp=True) as server:
        with server.client() as client:
            client.execute_command(*rights())
            url = f"redis://gateway:p%40ss%2Fword@127.0.0.1:{server.port}/0"
            async with dispatching(settings_for(tmp_path, url, namespace)) as running:
                job_id = await running.client.submit("echo", 1)
                assert (await running.client.ended(job_id)).status == "succeeded"
                await running.client.store.inspect()
            denied = client.execute_command("ACL", "LOG")
        assert denied == [], "something that it does is not allowed"


async def test_wrong_login_and_too_few_rights_are_named(namespace: str) -> None:
    with Server(tcp=True) as server, server.client() as client:
        client.execute_command("ACL", "SETUSER", "small", "on", ">pw", "~gw:*", "+@connection", "+info")
        for login, name in (("small:wrong", "NOAUTH"), ("small:pw", "NOPERM")):
            with pytest.raises(StoreUnavailable, match=name) as caught:
                await Store.open(f"redis://{login}@127.0.0.1:{server.port}/0", namespace=namespace)
            assert "pw" not in str(caught.value)


@pytest.mark.skipif(REDIS is None, reason="needs a redis-server with TLS (apt install redis-server)")
async def test_jobs_run_over_tls_and_a_foreign_certificate_is_refused(namespace: str, tmp_path: Path) -> None:
    make_certificates(tmp_path)
    port, _ = free_ports()
    tls = ["--tls-port", str(port), "--tls-auth-clients", "no", "--tls-ca-cert-file", str(tmp_path / "ca.pem")]
    tls += ["--tls-cert-file", str(tmp_path / "server.pem"), "--tls-key-file", str(tmp_path / "server.key")]
    assert REDIS is not None
    with Server(tcp=True, extra=tls, binary=Path(REDIS)):
        url = f"rediss://127.0.0.1:{port}/0"
        settings = settings_for(tmp_path, f"{url}?ssl_ca_certs={tmp_path / 'ca.pem'}", namespace)
        async with dispatching(settings) as running:
            assert (await running.client.ended(await running.client.submit("echo", 1))).status == "succeeded"
        with pytest.raises(StoreUnavailable, match="certificate"):
            await Store.open(url, namespace=namespace)
