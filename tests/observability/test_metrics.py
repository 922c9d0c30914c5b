"""What is exported while an installation works: as documented, exact, added up over processes, in Prometheus's eyes."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.documents import ROOT
from tests.observability.prometheus import Prometheus, promtool, scraping
from tests.observability.scene import Scene, break_down, mixed_work, scene
from tests.observed import documented, exported, value
from tests.waiting import until_sync

pytestmark = pytest.mark.long

RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARD = GRAFANA / "dashboards" / "event-gateway.json"
HASTE = {r"for: \d+m": "for: 1s", r"> (300|60|10)\b": "> 1", r"> 0\.\d+": "> 0"}
"""What lets alerts fire within seconds; their expressions are otherwise as they are."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A scene after its work and its faults, and the Prometheus that watched, if there is one."""

    scene: Scene
    prometheus: Prometheus | None
    scrapes: tuple[str, ...]
    """Of a gateway's worker, and of the dispatchers that live, when the work was done."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    with scene(tmp_path_factory.mktemp("scene")) as it, contextlib.ExitStack() as stack:
        prometheus = None
        with contextlib.suppress(pytest.skip.Exception):
            rules = RULES.read_text()
            for pattern, hasty in HASTE.items():
                rules = re.sub(pattern, hasty, rules)
            folder = tmp_path_factory.mktemp("prometheus")
            prometheus = stack.enter_context(scraping(folder, it.ports, rules))
        mixed_work(it)
        scrapes = (it.scrape(it.ports[0]), *map(it.scrape, it.ports[2:]))
        yield Seen(it, prometheus, scrapes)


@pytest.fixture
def prometheus(seen: Seen) -> Prometheus:
    if seen.prometheus is None:
        pytest.skip("there is no prometheus here, and Debian's package cannot be fetched")
    return seen.prometheus


def test_every_metric_of_the_page_is_exported_and_no_other(seen: Seen) -> None:
    gateway, dispatcher = exported(seen.scrapes[0]), exported(*seen.scrapes[1:])
    common = documented("The installation's", "Every process's own")
    assert gateway == common | documented("A gateway's own")
    assert dispatcher == common | documented("A dispatcher's own")


@pytest.mark.parametrize("which", [0, 1], ids=["gateway", "dispatcher"])
def test_promtool_finds_nothing_wrong_with_a_scrape(seen: Seen, prometheus: Prometheus, which: int) -> None:
    done = promtool("check", "metrics", stdin=seen.scrapes[which])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_totals_are_the_jobs_that_were_sent_whatever_became_of_their_dispatchers(seen: Seen) -> None:
    for text in seen.scrapes:
        for target, sent in seen.scene.sent.items():
            if target != "work":  # of which the trigger and the schedule made more
                assert value(text, "gateway_jobs_total", event="submitted", target=target) == sent
        assert value(text, "gateway_jobs_total", event="succeeded", target="doubt") == seen.scene.sent["doubt"]
        assert value(text, "gateway_jobs_total", event="dead", target="fail") == 2
        assert value(text, "gateway_jobs_total", event="replayed", target="fail") == 1
        made = value(text, "gateway_jobs_total", event="submitted", target="work")
        fired = value(text, "gateway_schedule_slots_total", event="fired", schedule="often")
        assert seen.scene.sent["work"] + 1 <= made - fired <= seen.scene.sent["work"] + 2
        assert value(text, "gateway_callbacks_total", event="delivered") == 1
        assert value(text, "gateway_jobs_total", event="reclaimed") >= 1
        assert value(text, "gateway_dispatcher_deaths_total") >= 2


def test_workers_of_a_gateway_add_up_whichever_is_asked(seen: Seen) -> None:
    seen_deliveries = {value(seen.scene.scrape(seen.scene.ports[0]), "gateway_deliveries_total") for _ in range(8)}
    assert seen_deliveries == {4}
    assert value(seen.scrapes[0], "gateway_deliveries_total", verdict="rejected") == 1
    counts = [_metrics_requests(seen.scene) for _ in range(8)]
    assert counts == sorted(counts)
    seen.scene.kill_a_worker()
    assert _metrics_requests(seen.scene) >= counts[-1]


def _metrics_requests(scene: Scene) -> float:
    return value(scene.scrape(scene.ports[0]), "gateway_http_requests_total", route="/metrics")


def test_promtool_finds_nothing_wrong_with_the_rules(prometheus: Prometheus) -> None:
    done = promtool("check", "rules", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    config = promtool("check", "config", "--syntax-only", str(RULES.with_name("prometheus.yml")))
    assert config.returncode == 0, config.stdout + config.stderr


def test_every_recording_rule_has_data_and_the_classic_names_the_figures(seen: Seen, prometheus: Prometheus) -> None:
    recorded = [rule for rule in prometheus.rules() if rule["type"] == "recording"]
    assert [rule["health"] for rule in recorded] == ["ok"] * len(recorded)
    for rule in recorded:
        assert prometheus.query(rule["name"]), f"{rule['name']} has no data"
    sent = seen.scene.sent["bad"]
    assert prometheus.value('sum(jobs_submitted_total{target="bad"})') == sent
    assert prometheus.value('sum(jobs_processed_total{target="bad"})') == 2 * sent
    assert prometheus.value('sum(jobs_failed_total{target="bad"})') == 2 * sent
    assert prometheus.value('sum(jobs_dlq_total{target="bad"})') == sent


def test_every_query_of_the_dashboard_has_data(seen: Seen, prometheus: Prometheus) -> None:
    without = []
    for panel, expression in _queries():
        expression = expression.replace("$__rate_interval", "1m").replace("$job", "event-gateway")

        def there(expression: str = expression) -> bool:
            return bool(prometheus.query(expression))

        try:
            until_sync(there, timeout_s=60, every_s=0.2)
        except TimeoutError:
            without.append(f"{panel}: {expression}")
    assert without == []


def _queries() -> Iterator[tuple[str, str]]:
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def test_every_alert_fires_on_its_fault(seen: Seen, prometheus: Prometheus) -> None:
    alerts = {rule["name"] for rule in prometheus.rules() if rule["type"] == "alerting"}
    fired: set[str] = set()

    def all_did() -> bool:
        fired.update(prometheus.firing())
        return fired >= alerts

    break_down(seen.scene)
    with contextlib.suppress(TimeoutError):
        until_sync(all_did, timeout_s=60, every_s=0.2)
    silent = [rule for rule in prometheus.rules() if rule["name"] in alerts - fired]
    assert silent == [], [prometheus.query(rule["query"].rpartition(" > ")[0]) for rule in silent]


def test_grafana_has_the_alerts_of_prometheus() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    ours = {
        rule["alert"]: (rule["expr"], rule.get("for", "0s"), rule["labels"])
        for group in groups
        for rule in group["rules"]
        if "alert" in rule
    }
    provisioned = yaml.safe_load((GRAFANA / "provisioning/alerting/event-gateway.yml").read_text())
    theirs = {
        rule["title"]: (rule["data"][0]["model"]["expr"], rule["for"], rule["labels"])
        for group in provisioned["groups"]
        for rule in group["rules"]
    }
    assert theirs == ours


def test_grafana_parts_name_one_another() -> None:
    sources = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    alerting = yaml.safe_load((GRAFANA / "provisioning/alerting/event-gateway.yml").read_text())
    used = {each["datasourceUid"] for group in alerting["groups"] for rule in group["rules"] for each in rule["data"]}
    assert used - {"__expr__"} == {source["uid"] for source in sources}
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    assert [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"] == [
        "Is it healthy?",
        "What waits, and why?",
        "What fails?",
        "Which target is slow?",
        "What did a deploy change?",
    ]
