"""One path of the API as an ASGI application: who may, the handler, and every error as a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

import structlog
from starlette.types import Receive, Scope, Send

from gateway.api.bodies import ClientGone, close_slowly
from gateway.api.call import Call, Gateway
from gateway.api.operations import ANY_METHOD, DELIVERY_METHODS, Operation
from gateway.api.problems import Refused, problem_reply
from gateway.api.protocol import ANSWER
from gateway.api.reply import Reply, Stream, send_reply
from gateway.api.traces import RequestTrace
from gateway.errors import RequestError, StoreError, StoreFull

log = structlog.get_logger(__name__)


class Endpoint:
    """Answers every request to one path; the one place where a request is let in."""

    def __init__(self, gateway: Gateway, path: str, operations: Sequence[Operation]) -> None:
        self.path = path
        self.operations: Mapping[str, Operation] = {
            method: each
            for each in operations
            for method in (DELIVERY_METHODS if each.method == ANY_METHOD else (each.method,))
        }
        self._gateway = gateway
        allowed = sorted({*self.operations, *(("HEAD",) if "GET" in self.operations else ())})
        self._allow = ((b"allow", ", ".join(allowed).encode()),)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began_s = perf_counter()
        trace = self._trace(scope)
        try:
            reply = await self._answer(scope, receive, trace)
        except ClientGone:
            return
        if trace is not None:
            trace.end(scope["method"], self.path, reply.status)
        self._gateway.metrics.took(self.path, perf_counter() - began_s)
        self._gateway.metrics.count_request(self.path, reply.status)
        if isinstance(reply, Stream):
            await reply.run(scope, receive, send)
        elif reply.close and reply.status != 408:
            await close_slowly(reply, receive, send)
        elif not _answered(reply, scope):
            await send_reply(reply, send)

    def _trace(self, scope: Scope) -> RequestTrace | None:
        """Where tracing is on, what changes something is traced; looking is not."""
        tracing = self._gateway.tracing
        if tracing is None or scope["method"] in ("GET", "HEAD"):
            return None
        return RequestTrace.enter(tracing, scope["headers"]) if scope["method"] in self.operations else None

    async def _answer(self, scope: Scope, receive: Receive, trace: RequestTrace | None) -> Reply | Stream:
        try:
            operation = self._operation(scope["method"])
            call = Call(self._gateway, scope, receive, trace=trace)
            if operation.scope is not None:
                authoriser = self._gateway.authoriser
                call.client = await authoriser.authorise(call.headers, operation.scope, in_time=call.in_time)
            if operation.store and not self._gateway.gate.open:
                await call.in_time(self._gateway.gate.require)
            return await operation.handler(call)
        except RequestError as error:
            return problem_reply(error)
        except StoreError as error:
            level = log.warning if isinstance(error, StoreFull) else log.error
            level("the store refused", route=self.path, error=str(error))
            return problem_reply(error)
        except ClientGone:
            raise
        except Exception:
            log.exception("a request failed", route=self.path)
            return problem_reply(Refused(500, "this should not have happened; the gateway's log says more"))

    def _operation(self, method: str) -> Operation:
        found = self.operations.get("GET" if method == "HEAD" else method)
        if found is None:
            raise Refused(405, f"{method[:16]} is not for this path", headers=self._allow)
        return found


def _answered(reply: Reply, scope: Scope) -> bool:
    """Whether the server took the answer as a whole; those with headers of their own go the long way, which checks
    them."""
    answer = scope.get(ANSWER)
    if answer is None or reply.headers or reply.close or not reply.content_type:
        return False
    return bool(answer(reply.status, reply.content_type, reply.body))
