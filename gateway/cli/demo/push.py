"""A `push` as GitHub sends it: some 23 KB for 28 commits, signed by the webhook's secret."""

from __future__ import annotations

import hashlib
import hmac
import uuid
from dataclasses import dataclass
from typing import Any

import orjson

COMMITS = 28
REPOSITORY = "octo-org/hello-world"
_URL = f"https://github.com/{REPOSITORY}"


@dataclass(frozen=True, slots=True)
class Push:
    """A delivery: `headers` are those that GitHub sends, `body` the bytes that they sign."""

    headers: dict[str, str]
    body: bytes


def make_push(secret: str) -> Push:
    """A delivery that was never sent before."""
    guid = str(uuid.uuid4())
    body = orjson.dumps(_event(guid))
    return Push(_headers(secret, guid, body), body)


def _headers(secret: str, guid: str, body: bytes) -> dict[str, str]:
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/0123456",
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": guid,
        "X-Hub-Signature-256": f"sha256={signature}",
    }


def _event(seed: str) -> dict[str, Any]:
    """The fields that matter for size and shape; numbers and empties are the kind that careless code changes."""
    commits = [_commit(f"{seed}-{at}", at) for at in range(COMMITS)]
    person = {"name": "octocat", "email": "octocat@users.noreply.github.com"}
    return {
        "ref": "refs/heads/main",
        "before": _sha(f"{seed}-before"),
        "after": commits[-1]["id"],
        "repository": {
            "id": 9007199254740993,
            "name": REPOSITORY.partition("/")[2],
            "full_name": REPOSITORY,
            "html_url": _URL,
            "score": 1.0,
            "topics": [],
            "custom_properties": {},
            "default_branch": "main",
        },
        "pusher": person,
        "sender": {"login": "octocat", "id": 583231, "type": "User"},
        "created": False,
        "forced": False,
        "compare": f"{_URL}/compare/main",
        "commits": commits,
        "head_commit": commits[-1],
    }


def _commit(seed: str, at: int) -> dict[str, Any]:
    sha = _sha(seed)
    person = {"name": "Mona Lisa Octocat", "email": "octocat@users.noreply.github.com", "username": "octocat"}
    return {
        "id": sha,
        "tree_id": _sha(f"{seed}-tree"),
        "distinct": True,
        "message": f"Tell the reader why, not what ({at})\n\nThe first attempt was too clever; this one is not.",
        "timestamp": f"2026-03-14T15:{at:02}:00+01:00",
        "url": f"{_URL}/commit/{sha}",
        "author": person,
        "committer": person,
        "added": [f"src/parts/part_{at:03}_{name}.py" for name in ("reader", "writer", "index")],
        "removed": [],
        "modified": [f"tests/parts/test_part_{at:03}.py", f"docs/parts/part_{at:03}.md", "CHANGELOG.md"],
    }


def _sha(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
