"""What call-outs and callbacks reach: a server in a thread that answers what the path says."""

from __future__ import annotations

from tests.observability.threaded import QuietHandler, Threaded


class Receiver(Threaded):
    """Answers `/<status>…` with that status, `/503-once` with 503 and from then on 200; keeps what it got."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        owner = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                before = [path for path, _, _ in owner.requests]
                headers = {name.lower(): value for name, value in self.headers.items()}
                owner.requests.append((self.path, headers, body))
                again = self.path.endswith("-once") and self.path in before
                self.answer(200 if again else int(self.path[1:4]))

        super().__init__(Handler)

    def got(self, path: str) -> list[dict[str, str]]:
        """The headers of the requests to a path, in order."""
        return [headers for each, headers, _ in self.requests if each == path]
