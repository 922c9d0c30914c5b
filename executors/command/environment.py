"""What a command is told of its job, and what it sees of the dispatcher's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gateway import Attempt, Fatal

from .config import CommandConfig


def build_environment(attempt: Attempt[CommandConfig], environ: Mapping[str, str]) -> dict[str, str]:
    """`PATH`, the allow-listed names, the target's own, then the job's facts, each hiding the ones before."""
    config = attempt.config
    passed = {name: environ[name] for name in config.pass_env if name in environ}
    found = {"PATH": environ.get("PATH", os.defpath), **passed, **config.env, **_facts(attempt)}
    for name, value in found.items():
        if "\0" in value:
            raise Fatal(f"{name} holds a NUL character, which no environment can", type="launch")
    return found


def _facts(attempt: Attempt[CommandConfig]) -> dict[str, str]:
    job = attempt.job
    facts = {
        "GATEWAY_JOB_ID": job.job_id,
        "GATEWAY_JOB_TARGET": job.target,
        "GATEWAY_JOB_ATTEMPT": str(attempt.number),
        "GATEWAY_JOB_MAX_ATTEMPTS": str(job.max_attempts),
        "GATEWAY_JOB_KEY": job.key,
    }
    return {**facts, "TRACEPARENT": job.traceparent} if job.traceparent else facts
