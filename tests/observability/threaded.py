"""A server of `http.server` in a thread, on a loopback port, which says nothing of its own."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class QuietHandler(BaseHTTPRequestHandler):
    """Writes no log lines."""

    def log_message(self, format: str, *args: object) -> None:
        return

    def answer(self, status: int) -> None:
        """Answers with this status and no body."""
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


class Threaded:
    """Serves while it is entered; `url` is where."""

    def __init__(self, handler: type[QuietHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
