"""What call-outs and callbacks reach: a server in a thread that answers what the path says."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Receiver:
    """Answers `/<status>…` with that status, `/503-once` with 503 and from then on 200; keeps what it got."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                before = [path for path, _, _ in owner.requests]
                headers = {name.lower(): value for name, value in self.headers.items()}
                owner.requests.append((self.path, headers, body))
                again = self.path.endswith("-once") and self.path in before
                self.send_response(200 if again else int(self.path[1:4]))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def got(self, path: str) -> list[dict[str, str]]:
        """The headers of the requests to a path, in order."""
        return [headers for each, headers, _ in self.requests if each == path]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
