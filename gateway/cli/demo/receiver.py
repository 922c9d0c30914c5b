"""The demo's own HTTP server: the `http` target's other end, and where callbacks arrive."""

from __future__ import annotations

import json
import queue
import threading
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gateway.cli.demo.demo_tasks import receipt
from gateway.errors import GatewayError


@dataclass(frozen=True, slots=True)
class Received:
    """A callback as it came."""

    headers: dict[str, str]
    body: bytes


class Receiver:
    """Serves on a free loopback port while the `with` block lasts: `POST /receipt` is answered with a receipt of the
    body, anything posted to `/callbacks` is kept for `next_callback`."""

    def __init__(self) -> None:
        self._callbacks: queue.Queue[Received] = queue.Queue()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self._callbacks))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="receiver", daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next_callback(self, timeout_s: float) -> Received:
        """The oldest callback that was not asked for yet; GatewayError if none comes in time."""
        try:
            return self._callbacks.get(timeout=timeout_s)
        except queue.Empty:
            raise GatewayError(f"no callback arrived within {timeout_s:g} s") from None


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, callbacks: queue.Queue[Received], *connection: Any) -> None:
        self._callbacks = callbacks
        super().__init__(*connection)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        if self.path == "/callbacks":
            self._callbacks.put(Received(dict(self.headers.items()), body))
        answer = json.dumps(receipt(body)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the demo tells what arrives."""
