"""The file of a gateway, followed while it runs: where the pods are may change without a restart.

*Invariants*: `GatewayFile.settings` are always settings that a gateway could start with; what they differ in from those
that it started with is only where the pods are. A file that cannot be used changes nothing, and is said once.

Not here: what is done when the pods are others (`service.gateway`, `service.admin`).
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

#: How often the file is looked at.
EACH_S = 1.0
#: Of ``[gateway]``, what takes effect at once: all that says where the pods are.
FOLLOWED = ("shards", "replicas", "address", "admin_address", "addresses", "admin_addresses")


class GatewayFile:
    """*State*: `settings` as they are in effect; `_seen` is what the file was when it was last read. The first ones may
    be older than the file: a process may be started again with what the one before it was given."""

    def __init__(self, path: Path | None, settings: GatewaySettings) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self._said: list[str] = []
        self.settings = settings

    def look(self) -> bool:
        """Take over what the file says now; whether the pods are others."""
        if self._path is None or (state := _state(self._path)) == self._seen:
            return False
        self._seen = state
        try:
            found = load_gateway_settings(self._path)
        except SettingsError as error:
            log.error("the configuration file cannot be used; going on with what it said before", reason=str(error))
            return False
        before = self.settings
        where = {name: getattr(found.gateway, name) for name in FOLLOWED}
        self.settings = before.model_copy(update={"gateway": before.gateway.model_copy(update=where)})
        self._say_others(_differences(self.settings, found))
        return self.settings != before

    async def run(self, changed: Callable[[GatewaySettings], None], each_s: float = EACH_S) -> None:
        """Looks at the file for ever, and tells `changed` where the pods are if they are others."""
        while True:
            await asyncio.sleep(each_s)
            if self.look():
                try:
                    changed(self.settings)
                except Exception:
                    log.exception("the pods of the configuration file were not taken over")

    def _say_others(self, names: list[str]) -> None:
        if names and names != self._said:
            log.warning("settings were changed that take effect when the gateway is restarted", settings=names)
        self._said = names


def _state(path: Path) -> tuple[int, ...]:
    """Something else when the file is another, also where a link is made to point elsewhere."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def _differences(one: GatewaySettings, other: GatewaySettings) -> list[str]:
    """The keys of which they say something else."""
    return [
        f"{section}.{key}" if key else section
        for section in GatewaySettings.model_fields
        for key in _differing(getattr(one, section), getattr(other, section))
    ]


def _differing(one: Any, other: Any) -> list[str]:
    if one is None or other is None:
        return [] if one is other else [""]
    return [key for key in type(one).model_fields if getattr(one, key) != getattr(other, key)]
