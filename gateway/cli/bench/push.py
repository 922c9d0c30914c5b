"""A `push` of two commits in GitHub's shape and usual size: most of it are URLs of the repository and of people."""

from __future__ import annotations

from typing import Any

_API, _WEB = "https://api.github.com", "https://github.com/octo-shop/storefront"
_PERSON = ("followers", "following", "gists", "starred", "subscriptions", "organizations", "repos", "received_events")
_REPOSITORY = """
    forks keys collaborators teams hooks issue_events events assignees branches tags blobs git_tags git_refs trees
    statuses languages stargazers contributors subscribers subscription commits git_commits comments contents compare
    issue_comment merges archive downloads issues pulls milestones notifications labels releases deployments
"""
_AUTHOR = {"name": "Mona Lisa", "email": "mona@example.com", "username": "mona"}


def push() -> dict[str, Any]:
    """The body, before it is encoded."""
    person = {"login": "octo-shop", "id": 21031067, "type": "User", "site_admin": False}
    person |= {f"{name}_url": f"{_API}/users/octo-shop/{name}" for name in _PERSON}
    repository = {"id": 186853002, "name": "storefront", "full_name": "octo-shop/storefront", "owner": person}
    repository |= {f"{name}_url": f"{_API}/repos/octo-shop/storefront/{name}{{/id}}" for name in _REPOSITORY.split()}
    commits = [_commit(at) for at in (4711, 4712)]
    return {
        "ref": "refs/heads/main",
        "before": commits[0]["tree_id"],
        "after": commits[1]["id"],
        "repository": repository,
        "pusher": _AUTHOR,
        "sender": person,
        "created": False,
        "deleted": False,
        "forced": False,
        "base_ref": None,
        "compare": f"{_WEB}/compare/a...b",
        "commits": commits,
        "head_commit": commits[1],
    }


def _commit(at: int) -> dict[str, Any]:
    return {
        "id": f"{at:040x}",
        "tree_id": f"{at + 7:040x}",
        "distinct": True,
        "message": "Show prices with taxes\n\nFixes #17",
        "timestamp": "2026-05-15T15:20:30+02:00",
        "url": f"{_WEB}/commit/{at:040x}",
        "author": _AUTHOR,
        "committer": _AUTHOR,
        "added": [],
        "removed": [],
        "modified": ["shop/prices.py", "README.md"],
    }
