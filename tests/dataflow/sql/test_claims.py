"""Parameters that are claims of who asks: how they are written, and that no other spelling is taken for a parameter."""

import pytest

from dataflow.errors import InvalidQuery
from dataflow.sql.dialects import dialect_of
from dataflow.sql.statement import statement_of
from dataflow.sql.syntax.parse import parse

DIALECTS = ("postgres", "mariadb")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("written", "name"),
    [
        (":claims.sub", "claims.sub"),
        (":claims.org.id", "claims.org.id"),
        (":claims.from", "claims.from"),
        (":claims.sub::text", "claims.sub"),
        (":claims.sub-1", "claims.sub"),
        (":claimsx", "claimsx"),
        (":sub", "sub"),
    ],
)
def test_a_claim_is_a_parameter_with_dots(dialect: str, written: str, name: str) -> None:
    sql = f"SELECT id FROM t WHERE owner = {written} LIMIT 1"
    if "::" not in written or dialect == "postgres":
        parse(sql, dialect_of(dialect).grammar)
    (occurrence,) = statement_of(sql, dialect).occurrences
    assert occurrence.name == name
    assert sql[occurrence.span.start : occurrence.span.end] == f":{name}"


def test_a_list_of_claims() -> None:
    statement = statement_of("SELECT id FROM t WHERE owner IN (:claims.groups) AND id = :id")
    assert (statement.names, statement.lists) == (("claims.groups", "id"), {"claims.groups"})


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "written",
    [
        ":claims",
        ":Claims",
        ":CLAIMS.sub",
        ":Claims.sub",
        ":claims.",
        ":claims .sub",
        ":claims. sub",
        ":claims/**/.sub",
        ":claims.1",
        ":claims.1e5",
        ":claims..sub",
        ":claims.sub.",
        ':claims."sub"',
        ":claims.`sub`",
        ':"claims.sub"',
        ":`claims.sub`",
        ':"x"',
    ],
)
def test_what_is_nearly_a_claim_is_refused(dialect: str, written: str) -> None:
    with pytest.raises(InvalidQuery):
        parse(f"SELECT id FROM t WHERE owner = {written}", dialect_of(dialect).grammar)
