"""Finds the built-in plugins, which are named by string only, and only beside the `gateway` package.

A wheel holds them as `gateway.executors` and `gateway.plugins`; a checkout as `executors` and `plugins` next to
`gateway`. Those two names may mean something else where a user's own folder comes first on the path. Then ours are
loaded from their place under the name that they have in a wheel, and the user's are left alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from gateway.errors import PluginError

BUILT_IN = {
    "executors": ("python", "http", "command"),
    "plugins": (
        *("github", "standard", "hmac", "tokens", "none", "cloudevents", "bitbucket", "discord", "dropbox", "gitlab"),
        *("hubspot", "intercom", "jira", "linear", "mailgun", "meta", "mux", "notion", "okta", "paddle", "pagerduty"),
        *("sendgrid", "shopify", "slack", "square", "stripe", "twilio", "twitch", "typeform", "x", "zendesk", "zoom"),
    ),
}
_HOME = Path(__file__).resolve().parent.parent


def import_builtins(part: str, home: Path = _HOME) -> list[ModuleType]:
    """The built-in modules of `executors` or `plugins`, as `import_builtin` gives each."""
    folder = _folder(part, home)
    package = _package(part, folder, home)
    return [_module(f"{package}.{name}", folder.resolve()) for name in BUILT_IN[part]]


def import_builtin(part: str, name: str, home: Path = _HOME) -> ModuleType:
    """The built-in module `name` of `executors` or `plugins`; PluginError if it is not the one beside `gateway`."""
    folder = _folder(part, home)
    return _module(f"{_package(part, folder, home)}.{name}", folder.resolve())


def _module(name: str, folder: Path) -> ModuleType:
    try:
        module = importlib.import_module(name)
    except ImportError as exc:
        raise PluginError(f"plugin {name}", f"cannot be imported: {exc}; reinstall event-gateway") from exc
    if folder not in Path(module.__file__ or "").resolve().parents:
        raise PluginError(f"plugin {name}", f"lies at {module.__file__}, not in {folder}; rename that one")
    return module


def _folder(part: str, home: Path) -> Path:
    for folder in (home / part, home.parent / part):
        if (folder / "__init__.py").is_file():
            return folder
    raise PluginError(f"built-in {part}", f"not found beside {home}; reinstall event-gateway")


def _package(part: str, folder: Path, home: Path) -> str:
    """The name to import the built-in package by, after making sure that it leads to `folder`."""
    inner = f"{home.name}.{part}"
    if _leads_to(inner, folder):
        return inner
    if folder.parent == home:
        raise PluginError(f"built-in {part}", f"{inner} does not lead to {folder}; remove what stands before it")
    if _leads_to(part, folder):
        return part
    _load_package(inner, folder)
    return inner


def _leads_to(name: str, folder: Path) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    if spec is None or spec.origin is None:
        return False
    return Path(spec.origin).resolve() == (folder / "__init__.py").resolve()


def _load_package(name: str, folder: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise PluginError(f"built-in {folder.name}", f"cannot be loaded from {folder}; reinstall event-gateway")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
