"""The contract suites: each deliberately broken executor and verifier is rejected, by the test of its own fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
BROKEN = Path(__file__).with_name("broken.py")

EXPECTED = {
    "SwallowsCancellation": {"test_cancellation_passes_promptly"},
    "LeavesATask": {"test_cancellation_leaves_no_task"},
    "LeavesAProcess": {"test_cancellation_leaves_no_process"},
    "LeaksADescriptor": {"test_attempts_leave_no_descriptor"},
    "ReturnsWhatIsNoJson": {"test_execute_gives_a_result_that_is_json"},
    "TakesUnknownKeys": {"test_config_is_a_strict_struct"},
    "TurnsFatalIntoRetry": {"test_fatal_passes"},
    "HidesItsRetry": {"test_retry_passes"},
    "WrapsOtherErrors": {"test_other_exceptions_pass"},
    "SharesItsState": {"test_attempts_at_once_are_independent"},
    "BlocksTheLoop": {"test_execute_does_not_block_the_event_loop"},
    "ClosesOnlyOnce": {"test_start_and_aclose_may_be_repeated"},
    "HasNoName": {"test_name_is_text"},
    "Sound": set(),
    "ComparesOnlyTheStart": {"test_a_truncated_signature_is_refused"},
    "CrashesWithoutASignature": {"test_a_missing_signature_is_refused"},
    "IgnoresTheTime": {"test_a_time_outside_the_tolerance_is_refused"},
    "SignsTheStrippedBody": {"test_a_longer_or_shorter_body_is_refused"},
    "KnowsOneSecretOnly": {"test_each_secret_of_a_rotation_is_accepted"},
    "MakesUpIds": {"test_own_signature_is_accepted"},
    "TakesTheLastOfTwo": {"test_a_repeated_signature_header_is_refused"},
    "SoundVerifier": set(),
}
"""The tests that must fail for each; others may fail with them only where they are listed in ALSO."""

ALSO = {
    "SwallowsCancellation": {"test_attempts_at_once_are_independent"},
    "SharesItsState": {"test_cancellation_passes_promptly", "test_cancellation_leaves_no_task"},
    "ComparesOnlyTheStart": {"test_an_empty_signature_is_refused"},
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The names of the tests that fail, by class."""
    report = tmp_path_factory.mktemp("contracts") / "report.xml"
    fast = "not test_any_"  # a hundred examples each, which none of these faults needs
    plain = ["-p", "no:cacheprovider", "-p", "no:xdist", f"--junitxml={report}"]
    command = [sys.executable, "-m", "pytest", "-q", "-k", fast, *plain, str(BROKEN)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-1000:]
    found: dict[str, set[str]] = {name: set() for name in EXPECTED}
    for case in ElementTree.parse(report).iter("testcase"):
        kind = str(case.get("classname")).rpartition(".Test")[2]
        assert kind in found, case.attrib
        if case.find("failure") is not None or case.find("error") is not None:
            found[kind].add(str(case.get("name")).partition("[")[0])
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_broken_one_is_rejected_for_its_own_fault(failed: dict[str, set[str]], name: str) -> None:
    assert EXPECTED[name] <= failed[name], "its fault was not found"
    assert failed[name] - EXPECTED[name] <= ALSO.get(name, set()), "it was rejected for something else"
