"""Reading of configurations: one TOML file, overridden by the environment; errors are reported as one message.

*Invariants*: the environment overrides the file; an unknown key is an error that names the nearest known one.

Not here: the tables of a configuration (`service.settings.stack`, `service.settings.gateway`).
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from service.settings.errors import SettingsError

ENVIRONMENT_PREFIX = "UPQUERY_"
#: Environment variables that are not settings.
RESERVED_VARIABLES = frozenset({"UPQUERY_CONFIG", "UPQUERY_URL", "UPQUERY_ADMIN_URL", "UPQUERY_TOKEN"})
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Configuration(BaseSettings):
    """The tables of one kind of process. Build it with `read`, which reports errors as one message."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
        defer_build=True,
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment override the file's values, which are the constructor's arguments."""
        return (env_settings, init_settings)


Read = TypeVar("Read", bound=Configuration)


def read(
    kind: type[Read],
    path: Path | None,
    missing: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
) -> Read:
    """Read the configuration of a TOML file (none: defaults) and the environment. Raises `SettingsError`.

    `overrides` ({section: {key: value}}) override the file, not the environment; `missing` has the error text for a
    missing section or key, by section.
    """
    values = _read_file(path) if path is not None else {}
    for section, keys in (overrides or {}).items():
        values[section] = {**values.get(section, {}), **keys} if isinstance(keys, Mapping) else keys
    _refuse_unknown_variables(kind, os.environ)
    try:
        return kind(**values)
    except ValidationError as error:
        where = f"{path}: " if path is not None else ""
        lines = [_describe(kind, e["loc"], e["type"], e["msg"], missing) for e in error.errors()]
        raise SettingsError("\n".join(where + line for line in lines)) from None


def refuse_open_bind(host: str) -> None:
    """Reject a bind address that other machines can reach, for configurations without access control."""
    if host not in _LOOPBACK:
        raise SettingsError(
            f"[http] host = {host!r} is reachable from other machines, and reads are not authenticated. "
            "Set [auth] tokens_file or [auth.jwt] (docs/security.md), or bind to 127.0.0.1."
        )


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"The configuration file {path} does not exist.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The configuration file {path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"The configuration file {path} is not valid TOML: {error}.") from None


def _refuse_unknown_variables(kind: type[Configuration], environment: Mapping[str, str]) -> None:
    """Reject variables of unknown sections, which pydantic-settings ignores."""
    sections = set(kind.model_fields)
    for name in environment:
        if not name.upper().startswith(ENVIRONMENT_PREFIX) or name in RESERVED_VARIABLES:
            continue
        section = name[len(ENVIRONMENT_PREFIX) :].lower().split("__")[0]
        if section not in sections:
            raise SettingsError(f"Unknown setting {name} in the environment.{_suggest(section, sections, name)}")


def _suggest(given: str, known: Iterable[str], shown: str | None = None) -> str:
    nearest = difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)
    if not nearest:
        return f" Known settings: {', '.join(sorted(known))}."
    if shown is None:
        return f" Did you mean {nearest[0]!r}?"
    at = shown.lower().index(given)
    return f" Did you mean {shown[:at]}{nearest[0].upper()}{shown[at + len(given) :]}?"


def _describe(
    kind: type[Configuration],
    location: tuple[int | str, ...],
    mistake: str,
    message: str,
    missing: Mapping[str, str],
) -> str:
    dotted = ".".join(str(part) for part in location)
    if mistake == "extra_forbidden":
        return f"Unknown setting {dotted!r}.{_suggest(str(location[-1]), _known_at(kind, location))}"
    if mistake == "missing" and location[0] in missing:
        return missing[str(location[0])]
    return f"Setting {dotted!r}: {message[0].lower()}{message[1:]}."


def _known_at(kind: type[Configuration], location: tuple[int | str, ...]) -> list[str]:
    """Return the known keys of the table that `location` is in."""
    model: type[BaseModel] = kind
    for part in location[:-1]:
        if isinstance(part, str):
            annotation = model.model_fields[part].annotation
            for within in (annotation, *get_args(annotation)):
                if isinstance(within, type) and issubclass(within, BaseModel):
                    model = within
    return list(model.model_fields)
