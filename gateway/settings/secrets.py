"""Where secrets come from: a literal, `{ env = "NAME" }` or `{ file = "/path" }`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.secret import Secret

_MAX_BYTES = 65536
_FORMS = 'write the text, { env = "NAME" } or { file = "/path" }'


class UnreadSecret(ValueError):
    """A secret that is named, and is not there for this process."""


class ConfigFile(str):
    """The path of a file, as a field type of a configuration model; only the configuration file may name one."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SecretSource:
    """The environment and the directory (for relative paths) that `{ env = … }` and `{ file = … }` speak of.

    Where secrets are not `required`, for a process that neither serves nor signs, a missing one is no fault: what it
    belongs to is there, and refuses only what needs the secret.
    """

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    directory: Path = field(default_factory=Path)
    required: bool = True

    def path(self, text: str) -> str:
        """Where a file lies that the configuration names; ValueError if it names none."""
        if not text or "\0" in text:
            raise ValueError("not a path of a file")
        return str(self.directory / text)

    def variable(self, name: str) -> Secret:
        """The secret in an environment variable; ValueError if it is not set, or empty."""
        value = self.environ.get(name, "")
        if not value.strip():  # blanks would be a key that anybody guesses
            raise UnreadSecret(
                f"environment variable {name} is {'empty' if value else 'not set'}; set it to the secret"
            )
        return Secret(value)

    def file(self, path: str) -> Secret:
        """The secret in a file, less one newline at its end; ValueError if it cannot be read, or is empty."""
        try:
            with (self.directory / path).open("rb") as opened:
                content = opened.read(_MAX_BYTES + 1)
        except (OSError, ValueError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else exc
            raise UnreadSecret(f"cannot read the secret's file {self.directory / path}: {reason}") from exc
        if len(content) > _MAX_BYTES:
            raise ValueError(f"the secret's file {path} is longer than {_MAX_BYTES} bytes")
        return Secret(_text(content, path))


def read_secret(value: object, source: SecretSource | None) -> Secret:
    """The secret that a configured value stands for; ValueError says what is wrong, never what the value is.

    Without a source only a literal will do: over the API, `{ file = … }` would send the server's own files out.
    """
    match value:
        case Secret():
            return value
        case str() if not value.strip():
            raise ValueError(f"the secret is empty; {_FORMS}")
        case str():
            return Secret(value)
        case {"env": str(_)} | {"file": str(_)} if source is None:
            raise ValueError("only the configuration file may name a variable or file; write the secret itself")
        case {"env": str(name), **rest} if source is not None and not rest:
            return source.variable(name)
        case {"file": str(path), **rest} if source is not None and not rest:
            return source.file(path)
        case _:
            raise ValueError(f"not a secret; {_FORMS}")


def read_path(value: object, source: SecretSource | None) -> ConfigFile:
    """The file that a configured value names; ValueError over the API, which must not make us open files."""
    if source is None:
        raise ValueError("only the configuration file may name a file")
    if not isinstance(value, str):
        raise ValueError("not the path of a file")
    return ConfigFile(source.path(value))


def _text(content: bytes, path: str) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError as exc:
        raise ValueError(f"the secret's file {path} is not UTF-8 text") from exc
    text = text.removesuffix("\n").removesuffix("\r")
    if not text.strip():
        raise ValueError(f"the secret's file {path} is empty")
    return text
