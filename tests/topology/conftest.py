"""Groups of real servers, one of each per worker process; a test that takes one apart puts it together again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.settings import Settings
from tests.dispatch.running import settings_for
from tests.groups import ClusterGroup, SentinelGroup


@pytest.fixture(scope="session")
def sentinel_group() -> Iterator[SentinelGroup]:
    with SentinelGroup() as group:
        yield group


@pytest.fixture(scope="session")
def cluster_group() -> Iterator[ClusterGroup]:
    with ClusterGroup() as group:
        yield group


@pytest.fixture
def sentinels(sentinel_group: SentinelGroup) -> Iterator[SentinelGroup]:
    """All in order before and after the test."""
    yield sentinel_group
    sentinel_group.bring_back()


@pytest.fixture
def cluster(cluster_group: ClusterGroup) -> Iterator[ClusterGroup]:
    """All in order before and after the test."""
    yield cluster_group
    cluster_group.bring_back()


@pytest.fixture
def sentinel_settings(sentinels: SentinelGroup, namespace: str, tmp_path: Path) -> Settings:
    return settings_for(tmp_path, sentinels.url, namespace, lease="2s")


@pytest.fixture
def cluster_settings(cluster: ClusterGroup, namespace: str, tmp_path: Path) -> Settings:
    return settings_for(tmp_path, cluster.url, namespace, lease="2s")
