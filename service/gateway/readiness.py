"""Readiness of a pod, from its admin port: the data port does not show it without a token.

Not here: its use (`replica`).
"""

import asyncio
from urllib.parse import urlsplit

_REQUEST = b"GET /readyz HTTP/1.1\r\nhost: %b\r\nconnection: close\r\n\r\n"
_READY = b" 200 "


async def is_ready(admin: str, within_s: float) -> bool:
    """Return whether the admin port at this address reports readiness."""
    parts = urlsplit(admin)
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
            try:
                writer.write(_REQUEST % parts.netloc.encode())
                return _READY in await reader.readline()
            finally:
                writer.close()
    except (OSError, ValueError):
        # TimeoutError is an OSError; ValueError: a line without an end.
        return False
