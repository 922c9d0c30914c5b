"""The store on each topology with a clock that stands, as the tests of the store have it, and schedulers over it."""

from __future__ import annotations

import pytest

from tests.schedules.running import Yard
from tests.store.conftest import site, store, topology
from tests.store.site import Site

__all__ = ["site", "store", "topology"]


@pytest.fixture
def yard(site: Site) -> Yard:
    return Yard(site)
