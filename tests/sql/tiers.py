"""Tiers of the corpus's queries by shape, which is a file: how many are incremental, refreshed or ttl on each database.

Queries that are put in a certain tier, or must be refused, are left out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.fixtures.service import RunningService
from tests.sql.corpus_file import TIERS, CorpusFile
from tests.sql.corpus_run import CorpusRun
from tests.sql.upstream_oracle import Oracle

#: Numbers of queries by tier, of each shape.
Shapes = Mapping[str, Counter[str]]


def shapes(files: Sequence[CorpusFile], service: RunningService, oracle: Oracle) -> Shapes:
    """The tiers of all queries of some files."""
    return {file.path.stem: Counter(CorpusRun(_free(file), service, oracle).put().tiers) for file in files}


def _free(file: CorpusFile) -> CorpusFile:
    return replace(file, views=[v for v in file.views if v.error is None and v.options.keep != "refresh"])


def table(databases: Mapping[str, Shapes]) -> list[str]:
    """A row for each shape, with the numbers on each database, and one for all."""
    names = sorted({name for shapes_ in databases.values() for name in shapes_})
    width = max(map(len, names), default=0) + 2
    columns = f"{'queries':>9}{'incremental':>13}{'refresh':>9}{'ttl':>5}{'share':>8}"
    lines = [
        " " * width + "".join(f"{database:^{len(columns)}}" for database in databases),
        f"{'shape':<{width}}" + columns * len(databases),
    ]
    rows = {name: [found.get(name, Counter()) for found in databases.values()] for name in names}
    rows["all"] = [sum(found.values(), Counter[str]()) for found in databases.values()]
    lines += [f"{name:<{width}}" + "".join(map(_numbers, row)) for name, row in rows.items()]
    return [line.rstrip() for line in lines]


def _numbers(tiers: Counter[str]) -> str:
    if not tiers:
        return " " * 44
    incremental, refresh, ttl = (tiers[tier] for tier in TIERS)
    return f"{tiers.total():>9}{incremental:>13}{refresh:>9}{ttl:>5}{incremental / tiers.total():>8.1%}"
