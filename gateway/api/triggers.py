"""Triggers over the API: define, look at, delete; their last deliveries, and sending one through the routes again."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import orjson

from gateway.api.call import Call
from gateway.api.hooks import submit_matches
from gateway.api.json_bodies import json_text
from gateway.api.query import Query
from gateway.api.registering import pointer_of
from gateway.api.reply import DONE, Reply, json_reply
from gateway.deliveries import VERDICTS, Facts, Noted, Summary, Verdict, read_detail
from gateway.errors import ConfigError, Fault, InvalidRequest, NotFound, WrongState
from gateway.secret import Secret
from gateway.settings import TriggerSettings, read_trigger
from gateway.store.deliveries import ENTRY_ID, find_delivery, list_deliveries
from gateway.store.triggers import StoredTrigger, find_trigger, list_triggers, put_trigger, remove_trigger
from gateway.timestamps import timestamp
from gateway.triggers import Trigger
from gateway.verifier import Delivery, WebhookRequest

_NOT_REPLAYED: dict[Verdict, str] = {
    "rejected": "it did not verify, so it cannot be replayed",
    "limited": "it was over the trigger's limit, and its body was not kept; its sender was asked to send it again",
    "handshake": "it was a handshake, which no route ever sees",
    "replayed": "it is a replay itself; replay {}, which it was made of",
}


async def list_all(call: Call) -> Reply:
    """Every trigger by name, those of the file and those that were registered."""
    gateway = call.gateway
    stored = await call.in_time(lambda: list_triggers(gateway.store))
    found = {name: _file_facts(call, name) for name in gateway.registry.triggers}
    found |= {name: _stored_facts(call, name, each) for name, each in stored.items() if name not in found}
    return json_reply({"triggers": [found[name] for name in sorted(found)]})


async def show(call: Call) -> Reply:
    """One trigger; NotFound if there is none of that name."""
    name = call.path_value("trigger")
    if name in call.gateway.registry.triggers:
        return json_reply(_file_facts(call, name))
    return json_reply(_stored_facts(call, name, await _stored(call, name)))


async def put(call: Call) -> Reply:
    """201 for a new trigger, 200 for one that this replaces; WrongState for a name that the file defines."""
    text = await json_text(call)
    gateway, name = call.gateway, call.path_value("trigger")
    table = _table(text)
    try:
        gateway.registry.make_trigger(name, read_trigger(name, table, ""))
    except ConfigError as exc:
        raise InvalidRequest("the trigger has a fault", faults=[Fault(pointer_of(exc.place), exc.detail)]) from exc
    _refuse_files_own(call, name)
    now_ms = int(gateway.clock() * 1000)
    created = await call.in_time(lambda: put_trigger(gateway.store, name, text, now_ms=now_ms))
    gateway.triggers.forget(name)
    return json_reply(_stored_facts(call, name, await _stored(call, name)), 201 if created else 200)


async def delete(call: Call) -> Reply:
    """204; jobs that its deliveries became stay. WrongState for a name that the file defines."""
    name = call.path_value("trigger")
    _refuse_files_own(call, name)
    await call.in_time(lambda: remove_trigger(call.gateway.store, name))
    call.gateway.triggers.forget(name)
    return DONE


async def deliveries(call: Call) -> Reply:
    """A page of the last deliveries, the newest first, rejections, handshakes and replays among them."""
    query = Query(call.scope["query_string"], ("limit", "cursor", "verdict"))
    limit, verdict, cursor = query.limit(), query.one_of("verdict", VERDICTS), query.text("cursor") or ""
    query.done()
    name = (await _trigger(call)).name
    passed, _, rejected = cursor.partition(",")
    if any(text and not ENTRY_ID.match(text) for text in (passed, rejected)):
        raise InvalidRequest("the query has faults", faults=[Fault("cursor", "not a cursor that this API gave out")])
    found = await _page(call, name, passed, rejected.removeprefix("r"), limit)
    page = found[:limit]
    after = ",".join(_last(page, rejection) or old for rejection, old in ((False, passed), (True, rejected)))
    page.sort(key=lambda each: each[1].at_ms, reverse=True)  # some are noted later than others that came after them
    shown = [_summary(each, facts) for each, facts in page if verdict in (None, facts.verdict)]
    return json_reply({"deliveries": shown, "next_cursor": after if len(found) > limit else None})


async def show_delivery(call: Call) -> Reply:
    """One delivery with its headers, less what proves who sent it, and its body, if that was kept."""
    name, delivery_id = (await _trigger(call)).name, call.path_value("delivery_id")
    summary, detail = await call.in_time(lambda: find_delivery(call.gateway.store, name, delivery_id))
    facts, body = read_detail(detail)
    out = _summary(delivery_id, summary) | {"headers": facts.headers, "body_kept": facts.has_body}
    if facts.has_body:
        try:
            out["body"] = body.decode()
        except UnicodeDecodeError:
            out["body_base64"] = base64.b64encode(body).decode()
    return json_reply(out)


async def replay(call: Call) -> Reply:
    """202 with the jobs that the routes make of it now. It was verified when it came; a repeat is what is asked for."""
    trigger, delivery_id = await _trigger(call), call.path_value("delivery_id")
    summary, detail = await call.in_time(lambda: find_delivery(call.gateway.store, trigger.name, delivery_id))
    facts, body = read_detail(detail)
    if summary.verdict in _NOT_REPLAYED:
        raise WrongState(_NOT_REPLAYED[summary.verdict].format(summary.replay_of))
    if not facts.has_body:
        raise WrongState("its body was not kept (deliveries.bodies, or it was too long), so it cannot be replayed")
    request = WebhookRequest(summary.method, call.gateway.base_url + summary.path, tuple(facts.headers), body)
    now_s = call.gateway.clock()
    noted = Noted(request, int(now_s * 1000), "replayed", _delivery(facts), replay_of=delivery_id)
    try:
        answer = await _sent_again(call, trigger, noted, now_s=now_s)
    except InvalidRequest as error:
        call.gateway.journal.note(trigger, msgspec.structs.replace(noted, reason=error.detail))
        raise
    jobs = [(job["job_id"], job["target"]) for job in answer["jobs"]]
    call.gateway.journal.note(trigger, msgspec.structs.replace(noted, jobs=jobs))
    return json_reply(answer, 202)


async def _sent_again(call: Call, trigger: Trigger, noted: Noted, *, now_s: float) -> dict[str, Any]:
    """What the delivery is answered with; raises InvalidRequest, StoreError."""
    found = trigger.match(noted.request, noted.delivery or Delivery(None))
    if not found:
        return {"jobs": [], "duplicate": False}
    matches = [msgspec.structs.replace(match, identity=None) for match in found]
    return await submit_matches(call, trigger, matches, now_s=now_s)


async def _page(call: Call, name: str, passed: str, rejected: str, limit: int) -> list[tuple[str, Summary]]:
    """Up to one more than the limit of each list, in one order."""
    store = call.gateway.store
    found = await call.in_time(lambda: list_deliveries(store, name, "deliveries", before=passed, limit=limit + 1))
    found += await call.in_time(lambda: list_deliveries(store, name, "rejections", before=rejected, limit=limit + 1))
    return sorted(found, key=lambda each: _order(each[0]), reverse=True)


def _order(delivery_id: str) -> tuple[int, int, bool]:
    at, _, number = delivery_id.removeprefix("r").partition("-")
    return int(at), int(number), delivery_id.startswith("r")


def _last(page: list[tuple[str, Summary]], rejection: bool) -> str:
    return next((each for each, _ in reversed(page) if each.startswith("r") is rejection), "")


async def _trigger(call: Call) -> Trigger:
    return await call.in_time(lambda: call.gateway.triggers.find(call.path_value("trigger")))


async def _stored(call: Call, name: str) -> StoredTrigger:
    found = await call.in_time(lambda: find_trigger(call.gateway.store, name))
    if found is None:
        raise NotFound(f"no trigger named {name[:64]!r}")
    return found


def _table(text: bytes) -> dict[str, Any]:
    try:
        table = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise InvalidRequest(f"not JSON: {exc.msg} (byte {exc.pos})", status=400) from exc
    if not isinstance(table, dict):
        raise InvalidRequest("a trigger is a JSON object")
    return table


def _refuse_files_own(call: Call, name: str) -> None:
    if name in call.gateway.registry.triggers:
        raise WrongState(f"trigger {name} is defined in {call.gateway.settings.source}: change it there")


def _file_facts(call: Call, name: str) -> dict[str, Any]:
    settings, trigger = call.gateway.settings.triggers[name], call.gateway.registry.triggers[name]
    return _facts(call, trigger, settings) | {"source": "file"}


def _stored_facts(call: Call, name: str, stored: StoredTrigger) -> dict[str, Any]:
    """Also of one that cannot be used any more, so that it can be seen and deleted."""
    times = {"created_at": timestamp(stored.created_ms), "updated_at": timestamp(stored.updated_ms)}
    try:
        settings = read_trigger(name, stored.table(), "")
        trigger = call.gateway.registry.make_trigger(name, settings)
    except ConfigError as exc:
        return {"name": name, "source": "api", "fault": exc.detail, **times}
    return _facts(call, trigger, settings) | {"source": "api"} | times


def _facts(call: Call, trigger: Trigger, settings: TriggerSettings) -> dict[str, Any]:
    """What is configured, less every secret."""
    name, config = trigger.name, trigger.verifier.config
    base = call.gateway.settings.gateway.public_url
    own = {field.encode_name: getattr(settings, field.name) for field in msgspec.structs.fields(TriggerSettings)}
    own = {
        key: value for key, value in own.items() if key not in ("config", "place") and value not in (None, (), False)
    }
    out: dict[str, Any] = {"name": name, "path": f"/hooks/{name}", **msgspec.to_builtins(own, enc_hook=_plain)}
    out["routes"] = [{key: value for key, value in route.items() if value is not None} for route in out["routes"]]
    if warning := trigger.warning(base):
        out["warning"] = warning
    if base is not None:
        out["url"] = f"{base.rstrip('/')}/hooks/{name}"
    listed = settings.config.get("secrets")
    count = len(listed) if isinstance(listed, list) else _count_secrets(config)
    return out | {"secrets": count, "config": _config(config)}


def _count_secrets(value: Any) -> int:
    """How many secrets a plugin's verifier was told, whatever its keys for them are called."""
    if isinstance(value, msgspec.Struct):
        value = [getattr(value, name) for name in value.__struct_fields__]
    if isinstance(value, dict):
        value = [*value.values()]
    return sum(map(_count_secrets, value)) if isinstance(value, (tuple, list)) else isinstance(value, Secret)


def _config(config: Any) -> dict[str, Any]:
    """What the verifier was told, less its secrets and what it would do anyway."""
    out = {}
    for field in msgspec.structs.fields(type(config)):
        value = getattr(config, field.name)
        if not _has_secret(value) and value not in (None, ()) and (field.required or value != field.default):
            out[field.encode_name] = msgspec.to_builtins(value, enc_hook=_plain)
    return out


def _has_secret(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_has_secret(each) for each in value)
    return isinstance(value, Secret) or (isinstance(value, dict) and _has_secret([*value.values()]))


def _plain(value: Any) -> Any:
    """A duration is a number, a rate a text."""
    return float(value) if isinstance(value, float) else str(value)


def _summary(delivery_id: str, summary: Summary) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": delivery_id,
        "at": timestamp(summary.at_ms),
        "verdict": summary.verdict,
        "method": summary.method,
        "path": summary.path,
        "bytes": summary.bytes_,
        "jobs": [{"job_id": job_id, "target": target} for job_id, target in summary.jobs],
    }
    return out | {name: text for name in ("event", "reason", "sender", "replay_of") if (text := getattr(summary, name))}


def _delivery(facts: Facts) -> Delivery:
    form = None if facts.form is None else tuple(facts.form)
    return Delivery(None, facts.event, None if facts.inner is None else facts.inner.encode(), form=form)
