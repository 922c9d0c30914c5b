"""Logging: structlog, JSON or console, to standard error."""

from __future__ import annotations

import logging
import sys
from functools import partial
from typing import Any

import structlog
from opentelemetry import trace

from gateway.folding import Folding
from gateway.log_lines import LogLines
from gateway.settings import GatewaySettings


def configure_logging(settings: GatewaySettings) -> None:
    """One JSON object a line, or readable lines on a terminal (`log_format = "auto"` decides by where they go)."""
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    stamped: list[structlog.types.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[structlog.types.Processor] = (
        [structlog.processors.JSONRenderer()]
        if as_json
        else [_plain, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=[
            Folding(),
            *stamped,
            structlog.processors.format_exc_info,
            _traced,
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.log_level.upper())),
        logger_factory=LogLines(sys.stderr, tell=partial(_tell_dropped, [*stamped, *rendering])),
        cache_logger_on_first_use=True,
    )


def _tell_dropped(processors: list[structlog.types.Processor], dropped: int) -> str:
    """The line for lines that could not be written."""
    facts: Any = {"event": "log lines were dropped: they could not be written", "lines": dropped}
    for process in processors:
        facts = process(None, "warning", facts)
    return str(facts)


def _traced(logger: Any, name: str, facts: structlog.types.EventDict) -> structlog.types.EventDict:
    """The ids of the attempt that the line is written in, where that is traced."""
    place = trace.get_current_span().get_span_context()
    if place.is_valid:
        facts.setdefault("trace_id", f"{place.trace_id:032x}")
        facts.setdefault("span_id", f"{place.span_id:016x}")
    return facts


def _plain(logger: Any, name: str, facts: structlog.types.EventDict) -> structlog.types.EventDict:
    """Nothing that a terminal would act on: a name from outside may hold escapes. JSON escapes them by itself."""
    for key, value in facts.items():
        if isinstance(value, str) and key != "exception" and not value.isprintable():
            facts[key] = value.encode("unicode_escape").decode("ascii")
    return facts
