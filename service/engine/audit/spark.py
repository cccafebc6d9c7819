"""Fresh results of cached keys by Spark: ``python -m dataflow.spark.audit``, whose tasks import the held snapshot.

*Invariants*: passwords are passed on standard input; the exchange folder is private and removed at the end.

Not here: the Spark job (`dataflow.spark.audit`).
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import orjson

from service.engine.audit.answers import LATE, AuditQuestion, FreshAnswer
from service.engine.audit.leaf_copy import CopiedKey
from service.engine.upstream.held_snapshot import AuditSnapshot
from service.engine.upstream.results import UpstreamError
from service.protocol.child import child_environment
from service.settings.secrets import connection_url, upstream_password
from service.settings.spark import SparkSettings
from service.settings.stack import Settings

#: Approximate keys of one task, and of one file of queries.
TASK_KEYS = 2000
_END_S = 10.0


async def ask_spark(
    settings: Settings, taken: AuditSnapshot, questions: Iterator[AuditQuestion], keys: int, until: float
) -> AsyncGenerator[FreshAnswer, None]:
    """Yields results in any order. Raises UpstreamError if Spark fails."""
    kept: list[CopiedKey] = []
    with TemporaryDirectory(prefix="upquery-audit-") as folder:
        asked = Path(folder) / "questions.jsonl"
        with asked.open("wb") as file:
            for number, question in enumerate(questions):
                kept.append(question.stored)
                file.write(orjson.dumps([number, question.sql, question.parameters]) + b"\n")
        if not kept:
            return
        await _run(_job(settings, taken, asked, Path(folder) / "answers", keys), until)
        answered = set()
        for path in sorted((Path(folder) / "answers").glob("*.jsonl")):
            with path.open("rb") as lines:
                for line in lines:
                    number, rows, reason = orjson.loads(line)
                    answered.add(number)
                    yield FreshAnswer(kept[number], reason or [tuple(row) for row in rows])
                    await asyncio.sleep(0)
        for number, stored in enumerate(kept):
            if number not in answered:
                yield FreshAnswer(stored, LATE)


def _job(settings: Settings, taken: AuditSnapshot, asked: Path, answers: Path, keys: int) -> dict[str, Any]:
    spark = settings.spark or SparkSettings()
    upstream = settings.upstream
    return {
        "questions": str(asked),
        "answers": str(answers),
        "tasks": max(1, -(-keys // TASK_KEYS)),
        "url": connection_url(upstream.url, upstream_password(upstream)),
        "snapshot": taken.name,
        "spark": {"master": spark.master, "conf": dict(spark.conf), "memory": f"{spark.driver_memory >> 20}m"},
    }


async def _run(job: dict[str, Any], until: float) -> None:
    """Runs the job to its end. Raises UpstreamError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "dataflow.spark.audit",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=child_environment(),
        # Includes its JVM: they end together.
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(max(0.0, until - monotonic())):
            said, _ = await process.communicate(orjson.dumps(job))
    except TimeoutError:
        raise UpstreamError("timeout", "The Spark job did not finish in time.") from None
    finally:
        await _end(process)
    if process.returncode:
        raise UpstreamError("failed", _reason(said))


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        os.killpg(process.pid, 15)
        try:
            async with asyncio.timeout(_END_S):
                await process.wait()
        except TimeoutError:
            os.killpg(process.pid, 9)
            await process.wait()


def _reason(said: bytes) -> str:
    try:
        last = orjson.loads(said.splitlines()[-1])
        return f"{last['detail']} {last['hint']}".strip()
    except (ValueError, KeyError, IndexError):
        return "The Spark job ended; the service's log has the cause."
