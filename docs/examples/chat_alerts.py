"""A plugin that tells a chat of dead jobs: a message for each, at most one a second.

    plugins = ["chat_alerts"]                 # gateway.toml, with this file beside it
    CHAT_WEBHOOK_URL=https://hooks.slack.com/services/…     # the environment of the dispatchers

Slack, Mattermost, Discord (with `/slack` after its URL) and Teams take such messages. The hook runs in the event loop,
so it only puts the event into a queue; a thread sends. When the chat is slow or away, events beyond the queue's length
are counted and told of with the next message.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
import urllib.request
from collections.abc import Callable

import structlog

from gateway import JobEvent, hookimpl

GATEWAY_PLUGIN_API = 1
WAITING = 100
PAUSE_S = 1.0
TIMEOUT_S = 10.0

log = structlog.get_logger("chat_alerts")


class Alerts:
    """Sends messages from a thread of its own, which is started with the first one."""

    def __init__(self, send: Callable[[str], None], *, pause_s: float = PAUSE_S) -> None:
        self._send = send
        self._pause_s = pause_s
        self._waiting: queue.Queue[str] = queue.Queue(WAITING)
        self._dropped = 0
        self._thread: threading.Thread | None = None

    def tell(self, message: str) -> None:
        """Never blocks."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="chat-alerts", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(message)
        except queue.Full:
            self._dropped += 1

    def _run(self) -> None:
        while True:
            message = self._waiting.get()
            dropped, self._dropped = self._dropped, 0
            if dropped:
                message += f" (and {dropped} more that are not listed)"
            try:
                self._send(message)
            except OSError as exc:  # never the URL, which is a secret
                log.warning("chat message not sent", error=type(exc).__name__)
            time.sleep(self._pause_s)


def post(message: str) -> None:
    """Posts a message to the chat; raises OSError."""
    request = urllib.request.Request(  # noqa: S310 (the operator's own URL)
        os.environ["CHAT_WEBHOOK_URL"],
        data=json.dumps({"text": message}).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # noqa: S310
        pass


_alerts = Alerts(post)


@hookimpl
def job_event(event: JobEvent) -> None:
    """Tells of dead jobs, where a chat is configured."""
    if event.type == "dead" and os.environ.get("CHAT_WEBHOOK_URL"):
        _alerts.tell(f"Job {event.job_id} of {event.target} is dead: {event.reason}, after {event.attempt} attempts")
