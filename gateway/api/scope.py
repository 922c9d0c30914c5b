"""What our protocol puts into a request's scope, beside what ASGI has there; another server puts none of it."""

from __future__ import annotations

NAMED = "gateway.named"
"""The headers by name, the last value of each."""

HEAD_MOST = "gateway.head_most"
"""How many bytes the headers can have at most; None where nobody knows without counting."""

WHOLE = "gateway.whole"
"""True once all of the body is there, so that reading it waits for nothing."""

ANSWER = "gateway.answer"
"""Called with a status, a content type and a body, sends the whole answer in one write, where uvicorn makes two, which
cost more than all else that is done to answer. False if it has to be sent uvicorn's way."""

EOF = "gateway.eof"
"""True once the client sends nothing more. It may be gone, or wait for its answer; only writing to it tells."""

ABORT = "gateway.abort"
"""Drops the connection at once, with what is still to be sent."""

ON_DRAIN = "on_drain"
"""What an application's lifespan state may hold for the protocol: called when the server begins to stop, before it
waits for requests under way."""
