"""What `docs/metrics.md` says there is, and what a scrape shows."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
_ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram|summary) \| ([\w, ]*) ?\|", re.MULTILINE)
_OF_SAMPLES = {"le", "quantile"}

Described = dict[str, tuple[str, frozenset[str]]]
"""By the metric's name: its type and labels."""


def documented(*sections: str) -> Described:
    """The metrics of some sections of the page, of all if none is named."""
    parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    chosen = [part for part in parts if not sections or part.startswith(tuple(f"{name}\n" for name in sections))]
    return {
        name: (kind, frozenset(filter(None, labels.strip().split(", "))))
        for name, kind, labels in _ROW.findall("\n".join(chosen))
    }


def exported(*texts: str) -> Described:
    """The metrics of scrapes that are ours, with the labels of their samples in any of them."""
    found: Described = {}
    for family in (family for text in texts for family in text_string_to_metric_families(text)):
        if family.name.startswith("gateway_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels} - _OF_SAMPLES
            _, before = found.get(name, ("", frozenset()))
            found[name] = family.type, before | labels
    return found


def value(text: str, name: str, **labels: str) -> float:
    """The sum of a scrape's samples of that name which have these labels."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
