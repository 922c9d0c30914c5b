"""Contract suites and stand-alone values for those who write plugins; needs pytest, so nothing else here imports it."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("gateway.testing.executors", "gateway.testing.verifiers")
