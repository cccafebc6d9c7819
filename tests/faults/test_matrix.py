"""Faults under the load of the news site: no answer is wrong, and all heals. `make faults` injects all of them."""

import os
import sys
from collections.abc import Sequence

import pytest

from tests.faults.__main__ import table_of
from tests.faults.bed import Bed, running_bed
from tests.faults.injection import Fault
from tests.faults.matrix import SIDES, faults_of
from tests.faults.replicas import running_replicas
from tests.faults.sides import PostgresSide

#: In the ordinary run: quick ones that nothing else injects.
SOME = (
    "all workers are killed",
    "the supervisor is killed",
    "a worker may open no more files",
    "230 connections to the admin port",
    "all connections to the database are cut",
    "the server ends all connections",
    "the supervisor is killed while a checkpoint is written",
    "a checkpoint is torn",
    "both engines and the stream process die",
)
ALL = "ALL_FAULTS" in os.environ


@pytest.mark.parametrize(
    ("upstream", "shards"),
    [
        pytest.param("postgres", 1, marks=pytest.mark.postgres),
        pytest.param("postgres", 2, marks=pytest.mark.postgres),
        *(
            [
                pytest.param("mariadb", 1, marks=pytest.mark.mariadb),
                pytest.param("mariadb", 2, marks=pytest.mark.mariadb),
                pytest.param("kafka", 1, marks=[pytest.mark.postgres, pytest.mark.kafka]),
            ]
            if ALL
            else []
        ),
    ],
)
def test_no_answer_is_wrong_and_all_heals(upstream: str, shards: int) -> None:
    faults = [each for each in faults_of(upstream, shards=shards > 1) if ALL or each.name in SOME]
    with running_bed(SIDES[upstream], shards=shards, small=ALL) as bed:
        inject_all(bed, faults)


if ALL:

    @pytest.mark.postgres
    def test_replicas_answer_for_each_other() -> None:
        with running_replicas(PostgresSide) as bed:
            inject_all(bed, faults_of("postgres", replicas=True))


def inject_all(bed: Bed, faults: Sequence[Fault]) -> None:
    for row in table_of(bed, faults, pause_s=0.5):
        sys.stdout.write(f"{row}\n")
