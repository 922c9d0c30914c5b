"""What a command is told of its job, and what it sees of the dispatcher's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gateway import Attempt, Fatal

from .config import CommandConfig
from .user import User


def build_environment(attempt: Attempt[CommandConfig], environ: Mapping[str, str], user: User | None) -> dict[str, str]:
    """`PATH`, the user's own, the allow-listed names, the target's, the job's facts: later ones win."""
    config = attempt.config
    found = {"PATH": environ.get("PATH", os.defpath)}
    if user is not None:
        found |= user.environment()
    found |= {name: environ[name] for name in config.pass_env if name in environ}
    found |= config.env
    for name, secret in config.secrets.items():
        found[name] = secret.reveal()
    found |= _facts(attempt)
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
