"""Comparison of the database's clock with this machine's, which time windows are computed by."""

import time
from collections.abc import Awaitable, Callable

from service.engine.upstream.results import Finding

#: Difference that is reported.
_MOST_S = 1.0


async def check_clock(ask: Callable[[], Awaitable[float]]) -> list[Finding]:
    """Returns a warning if the clocks differ. `ask`: the database's time in seconds since 1970."""
    before_s = time.time()
    theirs_s = await ask()
    # It was read between these two.
    ahead_s, behind_s = theirs_s - time.time(), before_s - theirs_s
    if max(ahead_s, behind_s) <= _MOST_S:
        return []
    where = f"{ahead_s:.1f} s ahead of" if ahead_s > 0 else f"{behind_s:.1f} s behind"
    reason = f"The database's clock is {where} this machine's: rows of time windows enter and leave at other times."
    return [Finding("clock", f"{reason} Synchronize both clocks, for example by NTP.", fatal=False)]
