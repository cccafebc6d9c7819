"""Configuration of a peer's process, passed by the harness."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from load.site import SiteDefinition

#: Goes in front of the pickled configuration.
LENGTH = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class PeerConfiguration:
    #: A name of `load.peers.process.PEERS`.
    peer: str
    site: SiteDefinition
    database_url: str
    #: What only this peer takes.
    options: Mapping[str, Any] = field(default_factory=dict)
