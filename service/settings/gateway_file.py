"""Reloading of a gateway's file: the pods' addresses may change without a restart.

*Invariants*: `GatewayFile.settings` are always valid, and differ from the initial ones in the pods' addresses only. An
invalid file changes nothing, and is logged once.

Not here: the effect of new addresses (`service.gateway`, `service.supervisor.fleet`).
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from service.settings.errors import SettingsError
from service.settings.gateway import GatewaySettings, load_gateway_settings

log = structlog.get_logger()

#: Interval of checks of the file.
EACH_S = 1.0
#: Keys of ``[gateway]`` that take effect at once: those of the pods' addresses.
FOLLOWED = ("shards", "replicas", "address", "admin_address", "addresses", "admin_addresses")


class GatewayFile:
    """*State*: `settings` in effect; `_seen`, the identity of the file when it was last read. The first settings may be
    older than the file: a restarted process gets those of its predecessor."""

    def __init__(self, path: Path | None, settings: GatewaySettings) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self._said: list[str] = []
        self.settings = settings

    def look(self) -> bool:
        """Reload the file if it has changed; return whether the pods' addresses did."""
        if self._path is None or (state := _state(self._path)) == self._seen:
            return False
        self._seen = state
        try:
            found = load_gateway_settings(self._path)
        except SettingsError as error:
            log.error("the configuration file is invalid; its previous settings stay in effect", reason=str(error))
            return False
        before = self.settings
        where = {name: getattr(found.gateway, name) for name in FOLLOWED}
        self.settings = before.model_copy(update={"gateway": before.gateway.model_copy(update=where)})
        self._say_others(_differences(self.settings, found))
        return self.settings != before

    async def run(self, changed: Callable[[GatewaySettings], None], each_s: float = EACH_S) -> None:
        """Check the file forever, and call `changed` with new addresses of pods."""
        while True:
            await asyncio.sleep(each_s)
            if self.look():
                try:
                    changed(self.settings)
                except Exception:
                    log.exception("the pods of the configuration file were not applied")

    def _say_others(self, names: list[str]) -> None:
        if names and names != self._said:
            log.warning("changed settings take effect when the gateway is restarted", settings=names)
        self._said = names


def _state(path: Path) -> tuple[int, ...]:
    """Return the identity of the file, which also changes when a symbolic link gets another target."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def _differences(one: GatewaySettings, other: GatewaySettings) -> list[str]:
    """Return the names of keys with different values."""
    return [
        f"{section}.{key}" if key else section
        for section in GatewaySettings.model_fields
        for key in _differing(getattr(one, section), getattr(other, section))
    ]


def _differing(one: Any, other: Any) -> list[str]:
    if one is None or other is None:
        return [] if one is other else [""]
    return [key for key in type(one).model_fields if getattr(one, key) != getattr(other, key)]
