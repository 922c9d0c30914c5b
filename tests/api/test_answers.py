"""Answers as bytes: what a raw connection sees of them."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.api.running import Running

WAIT_S = 30.0
JOB = b'{"target":"echo","payload":{"n":1}}'


def request(line: str, body: bytes = b"", *headers: str) -> bytes:
    head = "".join(f"{each}\r\n" for each in (line, "Host: localhost", f"Content-Length: {len(body)}", *headers))
    return f"{head}\r\n".encode() + body


async def ask(port: int, text: bytes) -> bytes:
    """All that comes back until the server closes the connection."""
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    return answer


def parts(answer: bytes) -> tuple[str, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    return line, dict(each.split(": ", 1) for each in lines), body


@pytest.mark.parametrize("line", ["POST /jobs HTTP/1.1", "POST /jobs HTTP/1.0"])
async def test_answer_has_its_length_and_date_and_says_that_the_connection_ends(api: Running, line: str) -> None:
    more = ("Connection: close",) if line.endswith("1.1") else ()
    status, headers, body = parts(await ask(api.port, request(line, JOB, *more)))
    assert status == "HTTP/1.1 202 Accepted"
    assert headers.pop("date")
    assert headers == {
        "content-length": str(len(body)),
        "content-type": "application/json",
        "connection": "close",
    }
    assert json.loads(body)["status"] == "pending"


async def test_answers_to_pipelined_requests_come_in_order(api: Running) -> None:
    jobs = [b'{"target":"echo","payload":%d}' % at for at in range(5)]
    text = b"".join(request("POST /jobs HTTP/1.1", job) for job in jobs)
    answer = await ask(api.port, text + request("GET /livez HTTP/1.1", b"", "Connection: close"))
    first, *_, last = answer.split(b"HTTP/1.1 ")[1:]
    assert answer.count(b"HTTP/1.1 202 Accepted") == 5
    assert first.startswith(b"202")
    assert last.startswith(b"200")
    assert [
        (await api.store.find(json.loads(each.partition(b"\r\n\r\n")[2])["job_id"])).record.payload
        for each in answer.split(b"HTTP/1.1 ")[1:-1]
    ] == [b"%d" % at for at in range(5)]


async def test_head_is_answered_without_a_body(api: Running) -> None:
    status, headers, body = parts(await ask(api.port, request("HEAD /livez HTTP/1.1", b"", "Connection: close")))
    assert (status, body) == ("HTTP/1.1 200 OK", b"")
    assert int(headers["content-length"]) > 0


@pytest.mark.parametrize("path", ["/hooks/", "/hooks/a/b", "/jobs/", "//jobs", "/jobs/x/y/z", "/hooks"])
async def test_path_that_only_looks_like_one_of_ours_is_404(api: Running, path: str) -> None:
    assert (await api.client.post(f"http://127.0.0.1:{api.port}{path}", content=JOB)).status_code == 404


async def test_parameter_of_a_path_is_unescaped_once(api: Running) -> None:
    answer = await api.client.get("/targets/no%2541me")
    assert answer.status_code == 404
    assert "no%41me" in answer.json()["detail"]
