"""Faults under the load of the news site: no answer is wrong, and all heals. `make faults` injects all of them."""

import os
import sys

import pytest

from tests.faults.__main__ import faults_of, table_of
from tests.faults.bed import running_bed
from tests.faults.sides import MariaSide, PostgresSide, Side

#: In the ordinary run: quick ones that nothing else injects.
SOME = (
    "all workers are killed",
    "a worker may open no more files",
    "230 connections to the admin port",
    "all connections are ended",
    "both engines and the stream process die",
)
ALL = "ALL_FAULTS" in os.environ


@pytest.mark.parametrize(
    ("side", "shards"),
    [
        pytest.param(PostgresSide, 1, marks=pytest.mark.postgres),
        pytest.param(PostgresSide, 2, marks=pytest.mark.postgres),
        *([pytest.param(MariaSide, 1, marks=pytest.mark.mariadb)] if ALL else []),
    ],
)
def test_no_answer_is_wrong_and_all_heals(side: type[Side], shards: int) -> None:
    upstream = "postgres" if side is PostgresSide else "mariadb"
    faults = [each for each in faults_of(upstream, shards=shards > 1) if ALL or each.name in SOME]
    with running_bed(side, shards=shards) as bed:
        for row in table_of(bed, faults, pause_s=0.5):
            sys.stdout.write(f"{row}\n")
