"""What a job sets of the HTTP request that its target makes: headers, method, path, query, or a URL of its own."""

from __future__ import annotations

from gateway.egress.rules import check_url
from gateway.errors import RequestError
from gateway.jobs import JobRequest
from gateway.settings import FieldFault
from gateway.submission.body import SubmitBody
from gateway.submission.catalog import Caller, Catalog, TargetFacts
from gateway.submission.checks import check_destination
from gateway.submission.faults import Faults

FIELDS = ("headers", "method", "path", "query")


def choose_url_target(body: SubmitBody, catalog: Catalog, caller: Caller, faults: Faults) -> TargetFacts | None:
    """The built-in target of a body with a `url`; raises RequestError (403) if its sender may not use one."""
    if catalog.url_target is None:
        faults.add("/url", "jobs with a url of their own are off here; name a target, or set url_jobs in [gateway]")
        return None
    if not caller.may_url:
        raise RequestError('a job with a url needs an API key with the scope "url"', status=403)
    for name in ("target", "type"):
        if getattr(body, name) is not None:
            faults.add(f"/{name}", "cannot be given beside url; give one of them")
    if body.key is not None:
        faults.add("/key", "cannot be given beside url: such a job's key is its host")
    return catalog.url_target


def choose_request(body: SubmitBody, target: TargetFacts | None, faults: Faults) -> JobRequest | None:
    """What the body sets, None where that is nothing; a fault for each that the target does not take."""
    if not (body.headers or body.method or body.path or body.query or body.url is not None):
        return None
    given = {name: value for name in FIELDS if (value := getattr(body, name))}
    request = JobRequest(**given)
    if target is not None and given:
        try:
            target.check_request(request)
        except FieldFault as exc:
            faults.add(f"/{exc.field}", str(exc))
        except ValueError as exc:
            for name in given:
                faults.add(f"/{name}", str(exc))
    return request if body.url is None else JobRequest(**given, url=body.url)


def host_of(url: str | None, catalog: Catalog, faults: Faults) -> str:
    """The key of a job with a URL of its own: its host and port; empty, and a fault, if that is no URL to call."""
    if url is None or not check_destination(url, catalog.allowed, "/url", faults):
        return ""
    return host_key(url)


def host_key(url: str) -> str:
    """The job key for a URL, at most 128 bytes: a very long name shares one with those that begin and end like it.

    Raises ValueError if it is no URL to call.
    """
    parsed = check_url(url)
    host = (parsed.raw_host or "").removesuffix(".")
    name = host if len(host) <= 100 else f"{host[:50]}~{host[-49:]}"
    return f"{name}:{parsed.port}"
