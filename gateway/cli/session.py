"""What a command speaks to: a gateway by its URL, else, straight in Redis, one that lives in the command itself."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import httpx
import typer
from typer.models import ArgumentInfo

from gateway.cli.naming import mended
from gateway.cli.printing import print_bytes, print_json
from gateway.cli.wording import worded
from gateway.client import AsyncGateway
from gateway.client.call import Call, Listing, NotAName
from gateway.errors import NotFound, RequestError

T = TypeVar("T")
P = ParamSpec("P")

Url = Annotated[
    str | None,
    typer.Option("--url", envvar="GATEWAY_URL", help="The gateway to speak to; left out: straight to Redis."),
]
ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", envvar="GATEWAY_API_KEY", help="An API key for --url.", show_envvar=True),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_RETRIES = 2
"""Fewer than in a program: someone waits."""

_STRAIGHT = "gateway.cli.straight"
"""Imported only where there is no URL: it brings the whole gateway along."""


@dataclass(frozen=True, slots=True)
class Session:
    """One command's way to a gateway, and how it prints."""

    url: str | None
    api_key: str | None
    as_json: bool
    signs: bool = False

    def signing(self) -> Session:
        """The same for a command that signs, or shows what is signed with: no configured secret may be missing."""
        return dataclasses.replace(self, signs=True)

    def run(self, work: Callable[[AsyncGateway], Awaitable[T]]) -> T:
        """What the work brings. Raises GatewayError; Ctrl-C ends it in order."""

        async def opened() -> T:
            async with self._gateway() as gateway:
                return await work(gateway)

        return asyncio.run(opened())

    def show(self, call: Call[T], text: Callable[[T], None]) -> None:
        """Prints the answer: as the gateway gave it with `--json`, else by `text`. Raises BadAnswer too."""
        body, answer = self.run(lambda gateway: gateway.call(call.read_by(lambda body: (body, call.read(body)))))
        if self.as_json:
            print_bytes(body)
        else:
            text(answer)

    def list(self, listing: Listing[T], most: int, text: Callable[[list[T], bool], None]) -> None:
        """Prints up to `most` items; `text` is told whether there are more."""

        async def fetch(gateway: AsyncGateway) -> tuple[list[Any], bool]:
            found: list[Any] = []
            cursor: str | None = None
            while True:
                items, cursor = listing.raw(await gateway.call(listing.at(cursor)))
                found += items
                if cursor is None or len(found) >= most:
                    return found[:most], cursor is not None or len(found) > most

        items, more = self.run(fetch)
        if self.as_json:
            print_json({listing.items: items, "more": more})
        else:
            text(listing.typed(items), more)

    def done(self, facts: dict[str, Any], text: str) -> None:
        """Prints what was done, of which there is no answer to show."""
        if self.as_json:
            print_json(facts)
        else:
            print(text)

    @contextlib.asynccontextmanager
    async def _gateway(self) -> AsyncIterator[AsyncGateway]:
        if self.url is None:
            async with importlib.import_module(_STRAIGHT).opened(signs=self.signs) as gateway:
                yield gateway
            return
        try:
            gateway = AsyncGateway(self.url, key=self.api_key, retries=_RETRIES)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--url or --api-key") from error
        async with gateway:
            yield gateway


def speaks(work: Callable[Concatenate[Session, P], None]) -> Callable[..., None]:
    """A command that speaks to a gateway: takes `--url`, `--api-key` and `--json`, which `work` gets as a Session."""
    own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
    typed = {each.name: _typed(each) for each in own}
    ours = [
        Parameter("gateway_url", Parameter.KEYWORD_ONLY, default=None, annotation=Url),
        Parameter("api_key", Parameter.KEYWORD_ONLY, default=None, annotation=ApiKey),
        Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=AsJson),
    ]

    def command(*args: Any, gateway_url: str | None, api_key: str | None, as_json: bool, **options: Any) -> None:
        session = Session(gateway_url or None, api_key or None, as_json)
        try:
            work(session, *args, **options)
        except NotFound as error:
            raise mended(error, session.run) from error
        except RequestError as error:
            raise worded(error, typed) from error
        except NotAName as error:
            raise typer.BadParameter(str(error)) from error
        except UnicodeEncodeError as error:  # the shell hands bytes on as they are
            raise typer.BadParameter("an argument is not UTF-8 text") from error
        except httpx.InvalidURL as error:  # names and filters stand in the request's URL
            raise typer.BadParameter(f"an argument cannot stand in a URL: {error}") from error

    parameters = [*own, *ours]
    command.__name__, command.__doc__, command.__module__ = work.__name__, work.__doc__, work.__module__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _typed(parameter: Parameter) -> str:
    """How a parameter is written on the command line; an argument by its name alone."""
    info = parameter.annotation.__metadata__[0]
    if isinstance(info, ArgumentInfo):
        return parameter.name
    return next(iter(info.param_decls or ()), f"--{parameter.name.replace('_', '-')}")
