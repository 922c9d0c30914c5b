"""One path of the API as an ASGI application: who may, the handler, and every error as a problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import msgspec
import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.api.begun import Asked, Begun, carry_on, is_one_call
from gateway.api.bodies import ClientGone, close_slowly
from gateway.api.call import Call, Gateway
from gateway.api.headers import Headers
from gateway.api.operations import ANY_METHOD, DELIVERY_METHODS, Operation
from gateway.api.problems import NOT_DELIVERED, UNAVAILABLE, UNEXPECTED, Refused, problem_reply
from gateway.api.query import Query
from gateway.api.reply import NO_CONTENT, Reply, Stream, send_reply
from gateway.api.scope import ANSWER, NAMED
from gateway.api.traces import RequestTrace
from gateway.errors import RequestError, StoreError, StoreFull
from gateway.jobs import Submitted
from gateway.tracing import Tracing

log = structlog.get_logger(__name__)

GoOn = Callable[[ASGIApp], None]
"""Runs an application for a request that was taken, in a task of its own."""


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
        self._takes = ", ".join(allowed)
        self._allow = ((b"allow", self._takes.encode()),)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = self._enter(scope, receive)
        reply: Reply | Stream
        try:
            reply = await self._answer(call)
        except ClientGone:
            return
        except Exception as error:
            reply = self.problem_of(error)
        self._count(call, reply.status)
        await self._send(reply, scope, receive, send)

    def take(self, scope: Scope, body: bytes, *, receive: Receive, go_on: GoOn) -> bool:
        """Answers a request whose body is there without a task, as soon as all is known; `go_on` runs an application
        where that needs one after all. False, before anything was done, if only calling the endpoint can tell."""
        gateway, operation = self._gateway, self.operations.get(scope["method"])
        if operation is None or operation.begin is None or not gateway.gate.open:
            return False
        call = self._enter(scope, receive)
        try:
            if operation.scope is not None:
                client = gateway.authoriser.known(call.headers, operation.scope)
                if client is None:
                    return False
                call.client = client
            begun = operation.begin(call, body)
        except Exception as error:
            begun = self.problem_of(error)
        if begun is None:
            return False
        if isinstance(begun, Reply):
            self.end(call, begun, go_on)
        elif isinstance(begun, Asked) and (gateway.store.partitions == 1 or is_one_call(begun)):
            turn = Turn(self, call, go_on, begun.finish)
            gateway.store.ask(begun.jobs, turn, begun.durability, until_s=call.until_s)
        else:
            go_on(lambda scope, receive, send: self._carry_on(call, begun, send=send))
        return True

    def end(self, call: Call, reply: Reply, go_on: GoOn) -> None:
        """Answers what was taken; what goes wrong with that is told to nobody else."""
        try:
            self._count(call, reply.status)
            if not _answered(reply, call.scope):
                go_on(lambda scope, receive, send: self._send(reply, scope, receive, send))
        except Exception as error:
            log.error("an answer could not be sent", route=self.path, exc_info=error)

    def problem_of(self, error: Exception) -> Reply:
        """What a request that failed is answered with; call it while the error is handled."""
        if isinstance(error, RequestError):
            return problem_reply(error)
        if isinstance(error, StoreError):
            level = log.warning if isinstance(error, StoreFull) else log.error
            level("the store refused", route=self.path, error=str(error))
            return problem_reply(error, unavailable=NOT_DELIVERED if self.path.startswith("/hooks/") else UNAVAILABLE)
        log.error("a request failed", route=self.path, exc_info=error)
        return problem_reply(Refused(500, UNEXPECTED))

    async def _carry_on(self, call: Call, begun: Begun, *, send: Send) -> None:
        try:
            reply = await carry_on(call, begun)
        except ClientGone:
            return
        except Exception as error:
            reply = self.problem_of(error)
        self._count(call, reply.status)
        await self._send(reply, call.scope, call.receive, send)

    def _enter(self, scope: Scope, receive: Receive) -> Call:
        trace = None if self._gateway.tracing is None else self._trace(self._gateway.tracing, scope)
        pairs, named = scope["headers"], scope.get(NAMED)
        headers = Headers(pairs, dict(pairs) if named is None else named)
        return Call(self._gateway, scope, receive, headers, trace, perf_counter())

    def _count(self, call: Call, status: int) -> None:
        """The answer is made."""
        if call.trace is not None:
            call.trace.end(call.scope["method"], self.path, status)
        self._gateway.metrics.answered(self.path, status, perf_counter() - call.began_s)

    async def _send(self, reply: Reply | Stream, scope: Scope, receive: Receive, send: Send) -> None:
        if isinstance(reply, Stream):
            await reply.run(scope, receive, send)
        elif reply.close and reply.status != 408:
            await close_slowly(reply, receive, send)
        elif not _answered(reply, scope):
            await send_reply(reply, send)

    def _trace(self, tracing: Tracing, scope: Scope) -> RequestTrace | None:
        """What changes something is traced; looking is not."""
        if scope["method"] in ("GET", "HEAD"):
            return None
        return RequestTrace.enter(tracing, scope["headers"]) if scope["method"] in self.operations else None

    async def _answer(self, call: Call) -> Reply | Stream:
        operation = self._operation(call.scope["method"])
        if operation.scope is not None:
            authoriser = self._gateway.authoriser
            call.client = await authoriser.authorise(call.headers, operation.scope, in_time=call.in_time)
        if operation.store and not self._gateway.gate.open:
            await call.in_time(self._gateway.gate.require)
        if operation.method == "GET" and operation.store and not operation.query:  # what takes some checks them itself
            Query(call.scope["query_string"], ()).done()
        return await operation.handler(call)

    def _operation(self, method: str) -> Operation:
        found = self.operations.get("GET" if method == "HEAD" else method)
        if found is None:
            raise Refused(405, f"{method[:16]} is not for this path; it takes {self._takes}", headers=self._allow)
        return found


class Turn(msgspec.Struct):
    """A request whose jobs are on their way: answered when it is told what became of them."""

    endpoint: Endpoint
    call: Call
    go_on: GoOn
    finish: Callable[[list[Submitted]], Reply]
    over: bool = False

    def done(self) -> bool:
        return self.over

    def set_result(self, result: list[Submitted], /) -> None:
        try:
            reply = self.finish(result)
        except Exception as error:
            reply = self.endpoint.problem_of(error)
        self.over = True
        self.endpoint.end(self.call, reply, self.go_on)

    def set_exception(self, exception: Exception, /) -> None:
        self.over = True
        self.endpoint.end(self.call, self.endpoint.problem_of(exception), self.go_on)


def _answered(reply: Reply, scope: Scope) -> bool:
    """Whether the server took the answer as a whole; those with headers of their own go the long way, which checks
    them."""
    answer = scope.get(ANSWER)
    if answer is None or reply.headers or reply.close or not reply.content_type or reply.status == NO_CONTENT:
        return False
    return bool(answer(reply.status, reply.content_type, reply.body))
