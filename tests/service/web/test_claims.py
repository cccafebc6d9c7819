"""Whatever a request says, a parameter that is a claim has the value that the token says."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow.types import ViewId
from service.ground.errors import ApiError
from service.leaf_store.catalog import ViewInfo, describe
from service.web.arguments import Arguments
from service.web.principal import Principal, Right
from tests.service.leaf_store.sample_views import make_view

READ = frozenset({Right.READ})
ALICE = Principal("a", READ, claims={"sub": "alice", "groups": ["red", "blue"], "id": 7})
BOB = Principal("b", READ, claims={"sub": "bob", "groups": [], "id": 8})
#: Parameters, and those of them that take lists.
FORMS: list[tuple[dict[str, int], tuple[str, ...]]] = [
    ({"claims.sub": 2}, ()),
    ({"claims.id": 0}, ()),
    ({"claims.sub": 2, "id": 0}, ()),
    ({"claims.sub": 2, "sub": 2}, ()),
    ({"claims.groups": 2, "ids": 0}, ("claims.groups", "ids")),
]
NAMES = [
    "id",
    "ids",
    "sub",
    "claims.sub",
    "claims%2Esub",
    "%63laims.sub",
    "claims",
    "claims.groups",
    "claims.id",
    "Claims.sub",
    "claims.sub:null",
    "limit",
    "after",
    "",
    "+claims.sub",
    "claims.sub%00",
    "claims[sub]",
]
VALUES = ["bob", "alice", "7", "8", "", "%00", "red", "a&b", "a=b"]
pair = st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES) | st.text("abc%2E=:.", max_size=5))
queries = st.lists(pair, max_size=4).map(lambda pairs: "&".join(f"{name}={value}" for name, value in pairs).encode())
values = st.sampled_from(["bob", 7, 8, None, True, ["bob"], {"sub": "bob"}])
keys = st.dictionaries(
    st.sampled_from(["id", "ids", "sub", "claims.sub", "claims.groups", "claims.id", "claims"]), values
)


VIEWS = [
    describe(ViewId(i), make_view("mine", parameters, lists=lists), None, "ready", True, refreshed)
    for i, (parameters, lists) in enumerate(FORMS)
    for refreshed in (False, True)
]


def told(info: ViewInfo, principal: Principal) -> dict[str, Any]:
    """Return the values that the parameters that are claims must have."""
    claims = {"claims.sub": principal.claims["sub"], "claims.id": str(principal.claims["id"])}
    groups = principal.claims["groups"]
    return {**claims, "claims.groups": tuple(groups if info.refreshed else sorted(groups))}


def check(info: ViewInfo, principal: Principal, found: Any) -> None:
    by_name = {p.name: value for p, value in zip(info.parameters, found, strict=True) if p.is_claim}
    assert by_name == {name: told(info, principal)[name] for name in by_name}
    assert by_name


@given(st.sampled_from(VIEWS), st.lists(queries, min_size=1, max_size=3))
def test_of_queries(info: ViewInfo, asked: list[bytes]) -> None:
    arguments = Arguments(info, 1000)
    # What one has asked for before must not be there for the other.
    for query in [*asked, b"", b"id=7", *asked]:
        for principal in (ALICE, BOB):
            with suppress(ApiError):
                check(info, principal, arguments.parse(query, principal)[0])
            assert arguments.entry_of(query) is None
            with pytest.raises(ApiError):
                arguments.parse(query)


@given(st.sampled_from(VIEWS), st.lists(keys, min_size=1, max_size=3))
def test_of_bodies(info: ViewInfo, asked: list[dict[str, Any]]) -> None:
    arguments = Arguments(info, 1000)
    for key in asked:
        for principal in (ALICE, BOB):
            with suppress(ApiError):
                check(info, principal, arguments.values(key, principal))
            assert arguments.entries.of([key]) is None
    assert arguments.entries.of_body(b'{"keys":[{"claims.id":8}]}') is None


@pytest.mark.parametrize("claim", [None, {}, {"seen": 1}, ["seen"], "seen", 1.5, "1\0"])
def test_a_claim_that_is_no_value_of_the_parameter_is_refused_and_not_shown(claim: Any) -> None:
    arguments = Arguments(VIEWS[2], 1000)
    with pytest.raises(ApiError) as refused:
        arguments.values({}, Principal("a", READ, claims={"id": claim}))
    assert refused.value.code == "forbidden"
    assert "seen" not in f"{refused.value.detail}{refused.value.hint}{refused.value.members}"


def test_hints_do_not_name_claims() -> None:
    for given_ in ({}, {"idd": 1}, {"claims.suc": 1}, {"x": 1}):
        with pytest.raises(ApiError) as refused:
            Arguments(VIEWS[4], 1000).values(given_, ALICE)
        assert "claims.sub" not in f"{refused.value.detail}{refused.value.hint}"
