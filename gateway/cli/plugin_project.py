"""`gateway plugins new NAME`: begins a plugin as a project of its own, whole and with tests that pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from gateway import PLUGIN_API, __version__
from gateway.cli.printing import print_json
from gateway.errors import ConfigError

TEMPLATES = Path(__file__).with_name("templates") / "plugin"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z", re.ASCII)
_MODULE, _TEST = "MODULE", "CHECK_"
"""What stands in the templates' paths: a wheel of ours holds nothing that looks like a test of its own."""


def new(
    name: Annotated[str, typer.Argument(help="The project's name, such as `acme-printer`.")],
    directory: Annotated[
        Path | None, typer.Option(help="Where to make it; default: a folder of that name here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Writes a small, complete plugin project: an executor, its entry point, and tests that hold it to the contract."""
    if _NAME.match(name) is None or len(name) > 50:
        detail = 'is no name of a project; write small letters, digits and dashes, such as "acme-printer"'
        raise ConfigError(f"plugins new: {name}", detail)
    folder = directory or Path(name)
    files = dict(project_files(name))
    try:
        if folder.exists() and any(folder.iterdir()):
            detail = "is there already, and not empty; choose another name or --directory"
            raise ConfigError(f"plugins new: {folder}", detail)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    except OSError as exc:
        raise ConfigError(
            f"plugins new: {folder}", f"cannot be written: {exc.strerror}; choose another name or --directory"
        ) from exc
    if as_json:
        print_json({"written": str(folder), "files": sorted(files)})
        return
    print(f"{folder}: an executor {name!r}, its tests, and a gateway.toml to try it with. Next:")
    print(f"  cd {folder} && pip install -e '.[dev]' && pytest && gateway up")


def project_files(name: str) -> Iterator[tuple[str, str]]:
    """Each file of a project of that name, by its path in it."""
    module = name.replace("-", "_")
    words = {
        "name": name,
        "module": module,
        "Class": "".join(part.capitalize() for part in name.split("-")),
        "api": str(PLUGIN_API),
        "version": ".".join(__version__.split(".")[:2]),
    }
    for template in sorted(TEMPLATES.rglob("*.template")):
        path = template.relative_to(TEMPLATES).as_posix().removesuffix(".template")
        yield path.replace(_MODULE, module).replace(_TEST, "test_"), Template(template.read_text()).substitute(words)
