"""The application's front: guards the head of each request, and takes it straight to its endpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.api.bodies import close_slowly
from gateway.api.endpoint import Endpoint, GoOn
from gateway.api.guards import HeadGuard
from gateway.api.problems import problem_reply


class Front(Starlette):
    """Starlette with a short way in: a path without parameters, or with one at its end, is looked up, and its endpoint
    called as the ASGI application that it is. The router matches every other one, and all of them below a `root_path`;
    so it does a webhook's with a slash at its end, as some write it into a provider's form, which follows no redirect.

    No middleware stands before an endpoint, since none lets anything through but answers.
    """

    def __init__(
        self, endpoints: Sequence[Endpoint], *, guard: HeadGuard, on_refusal: Callable[[int], None], **options: Any
    ) -> None:
        slashed = [Route(f"{each.path}/", each) for each in endpoints if each.path.startswith("/hooks/")]
        super().__init__(routes=[*(Route(each.path, each) for each in endpoints), *slashed], **options)
        self._guard = guard
        self._on_refusal = on_refusal
        self._whole = {each.path: each for each in endpoints if "{" not in each.path}
        self._ending: dict[str, tuple[str, Endpoint]] = {}
        for each in endpoints:
            before, _, last = each.path.rpartition("/")
            if "{" not in before and last.startswith("{"):
                self._ending[before] = (last.strip("{}"), each)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
        elif (refusal := self._guard.refusal(scope)) is not None:
            self._on_refusal(refusal.status)
            await close_slowly(problem_reply(refusal), receive, send)
        elif (endpoint := self._find(scope)) is not None:
            await endpoint(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def take(self, scope: Scope, body: bytes, *, receive: Receive, go_on: GoOn) -> bool:
        """As `Endpoint.take`, for a request to any path."""
        if self._guard.refusal(scope) is not None:
            return False
        endpoint = self._find(scope)
        return endpoint is not None and endpoint.take(scope, body, receive=receive, go_on=go_on)

    def _find(self, scope: Scope) -> Endpoint | None:
        """The endpoint by its path, the parameter in the scope as the router would put it there."""
        path: str = scope["path"]
        if scope.get("root_path"):
            return None
        if (endpoint := self._whole.get(path)) is not None:
            return endpoint
        before, _, last = path.rpartition("/")
        if not last or (found := self._ending.get(before)) is None:
            return None
        scope["path_params"] = {found[0]: last}
        return found[1]
