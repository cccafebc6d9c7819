"""What a peer's process is told by the harness."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from load.sides.side import SiteDefinition

#: Goes in front of the pickled configuration.
LENGTH = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class PeerConfiguration:
    """Which peer, over what. Picklable."""

    #: A name of `load.peers.process.PEERS`.
    peer: str
    site: SiteDefinition
    database_url: str
    #: What only this peer takes.
    options: Mapping[str, Any] = field(default_factory=dict)
