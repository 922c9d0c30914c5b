"""Which traces are recorded: the standard samplers, and a bound on what outsiders can have recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.errors import ConfigError
from gateway.limits import Rate
from gateway.tracing.context import TraceContext

SAMPLER, SAMPLER_ARG = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
_RATIOS = {"always_on": 1.0, "always_off": 0.0, "traceidratio": None}
_BOUND = 1 << 64


@dataclass(slots=True)
class Sampler:
    """`ratio` of the traces that begin here; with `by_parent` those of a sampled parent too, up to `outside` of them.

    A parent that is not sampled is heeded always, one that is only as far as the rate allows: the flag is an
    outsider's word, and recording what he likes costs us. Beyond the rate such a trace has the chance of any other.
    """

    ratio: float
    by_parent: bool
    outside: Rate
    clock: Callable[[], float]
    _tokens: float = field(init=False, default=0.0)
    _at_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._tokens, self._at_s = self.outside.number, self.clock()

    @classmethod
    def of(cls, environ: Mapping[str, str], outside: Rate, clock: Callable[[], float]) -> Sampler:
        """As the standard variables have it; raises ConfigError."""
        name = environ.get(SAMPLER, "").strip() or "parentbased_always_on"
        by_parent, kind = name.startswith("parentbased_"), name.removeprefix("parentbased_")
        if kind not in _RATIOS:
            known = ", ".join([*_RATIOS, *(f"parentbased_{each}" for each in _RATIOS)])
            raise ConfigError(f"environment: {SAMPLER}", f"no sampler named {name[:64]!r}; known: {known}")
        ratio = _RATIOS[kind]
        return cls(_ratio(environ) if ratio is None else ratio, by_parent, outside, clock)

    def samples(self, trace_id: int, parent: TraceContext | None) -> bool:
        """Whether this trace is recorded; the same everywhere for one that begins here."""
        if self.by_parent and parent is not None:
            if not parent.sampled:
                return False
            if self._take():
                return True
        return (trace_id & (_BOUND - 1)) < self.ratio * _BOUND

    def _take(self) -> bool:
        now_s = self.clock()
        per_s = self.outside.number / self.outside.per_s
        self._tokens = min(self.outside.number, self._tokens + (now_s - self._at_s) * per_s)
        self._at_s = now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def _ratio(environ: Mapping[str, str]) -> float:
    text = environ.get(SAMPLER_ARG, "").strip() or "1"
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ConfigError(f"environment: {SAMPLER_ARG}", f"{text[:64]!r} is no ratio; write a number from 0 to 1")
    return ratio
