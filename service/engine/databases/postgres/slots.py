"""Replication slots of Upquery's services on a PostgreSQL server: what each holds, and their removal.

Not here: the slot of a running stream (`cdc.postgres.slot`).
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

import psycopg

from cdc.postgres.failures import classify
from cdc.postgres.replication import connect
from cdc.postgres.slot import BOUND_STATEMENT, PREFIX, drop
from service.engine.upstream.results import Finding, UpstreamError

#: `inactive_since` exists from version 17 on.
_SLOTS = """
SELECT slot_name::text, active_pid, temporary, coalesce(wal_status, '')::text,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint,
       extract(epoch FROM now() - (to_jsonb(s) ->> 'inactive_since')::timestamptz)::bigint
FROM pg_catalog.pg_replication_slots s
WHERE starts_with(slot_name, %s) AND database = current_database() ORDER BY slot_name
"""
_UNLIMITED = "SELECT current_setting('max_slot_wal_keep_size') = '-1'"


@dataclass(frozen=True, slots=True)
class ReplicationSlot:
    """A slot of Upquery in one database. `held_bytes`: log that the server keeps for it; `unused_s`: seconds for which
    it has not been used, None if it is, or the server does not say."""

    name: str
    #: Process of the server that streams it; None: it is not in use.
    active_pid: int | None
    temporary: bool
    wal_status: str
    held_bytes: int
    unused_s: int | None


async def load_slots(connection: psycopg.AsyncConnection) -> list[ReplicationSlot]:
    """Returns the slots of Upquery in the connection's database."""
    found = await connection.execute(_SLOTS, [PREFIX])
    return [ReplicationSlot(*row) for row in await found.fetchall()]


async def slot_findings(connection: psycopg.AsyncConnection) -> list[Finding]:
    """Returns a warning for each slot that is not in use, and one if the server does not limit slots."""
    found = await (await connection.execute(_UNLIMITED)).fetchone()
    findings = [
        Finding(
            "unused_slot",
            f"The replication slot {slot.name} is not in use; the server keeps {slot.held_bytes:,} bytes of its log "
            "for it. The service that has left it continues from it, or replaces it, when it starts again.",
            f"If no service will start again with it: upquery slots drop {slot.name}",
            fatal=False,
        )
        for slot in await load_slots(connection)
        if slot.active_pid is None
    ]
    if found is not None and found[0]:
        findings.append(
            Finding(
                "slot_limit",
                "max_slot_wal_keep_size is -1: the server does not limit the log that a slot may hold. By default the "
                "stream uses a temporary slot then, and evicts everything when its connection breaks; nothing that is "
                "cached survives a restart.",
                BOUND_STATEMENT,
                fatal=False,
            )
        )
    return findings


async def list_slots(conninfo: str, timeout_s: float) -> list[ReplicationSlot]:
    """Returns the slots of Upquery in a database. Raises `UpstreamError`."""
    try:
        async with await connect(conninfo, timeout_s) as connection:
            return await load_slots(connection)
    except psycopg.Error as problem:
        raise _upstream_error(problem, conninfo) from None


async def drop_slots_of(conninfo: str, timeout_s: float, names: Collection[str], wait_s: float) -> list[str]:
    """Drops those of these slots that exist, when they are not in use any more; returns their names. Raises
    `UpstreamError` if that takes longer than `wait_s`."""
    dropped = []
    try:
        async with await connect(conninfo, timeout_s) as connection:
            async with asyncio.timeout(wait_s):
                for slot in [slot for slot in await load_slots(connection) if slot.name in names]:
                    while not await drop(connection, slot.name):
                        pass
                    dropped.append(slot.name)
            return dropped
    except psycopg.Error as problem:
        raise _upstream_error(problem, conninfo) from None
    except TimeoutError:
        raise UpstreamError("timeout", f"A slot is still in use after {wait_s:g} s.", retryable=True) from None


async def drop_slots(conninfo: str, timeout_s: float, names: Collection[str]) -> list[str]:
    """Drops these slots (none: all that are not in use); returns their names. Raises `UpstreamError`, before any is
    dropped, if one of them is in use or does not exist."""
    try:
        async with await connect(conninfo, timeout_s) as connection:
            slots = {slot.name: slot for slot in await load_slots(connection)}
            dropped = list(names) or [name for name, slot in slots.items() if slot.active_pid is None]
            for name in dropped:
                _check_unused(name, slots)
            for name in dropped:
                await connection.execute("SELECT pg_catalog.pg_drop_replication_slot(%s)", [name])
            return dropped
    except psycopg.Error as problem:
        raise _upstream_error(problem, conninfo) from None


def _check_unused(name: str, slots: dict[str, ReplicationSlot]) -> None:
    if name not in slots:
        raise UpstreamError("missing", f"There is no slot {name} of Upquery in this database.")
    pid = slots[name].active_pid
    if pid is not None:
        raise UpstreamError(
            "invalid",
            f"The slot {name} is in use by a running service (process {pid} of the database), which would evict "
            "everything. Stop that service: it drops its slot.",
        )


def _upstream_error(problem: psycopg.Error, conninfo: str) -> UpstreamError:
    failure = classify(problem, conninfo)
    return UpstreamError(failure.code, failure.detail, failure.hint, retryable=failure.retryable)
