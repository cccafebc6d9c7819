"""Collations by invented weights: every text against every other, by weights as the servers compare them."""

import pickle
from collections.abc import Iterator
from functools import cache
from itertools import product, zip_longest

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataflow.collations import CodePoints, Collation, Implicit
from dataflow.schema import SqlType

#: ``A`` and ``a`` weigh the same, ``ß`` what ``ss`` does, ``⸗`` nothing, a tab less than a space and ``\xa0`` the same.
WEIGHTS = {
    "\t": b"\0\5",
    " ": b"\0\7",
    "\xa0": b"\0\7",
    "a": b"\0\x20",
    "A": b"\0\x20",
    "b": b"\0\x21",
    "s": b"\0\x30",
    "S": b"\0\x30",
    "ß": b"\0\x30\0\x30",
    "⸗": b"",
    "~": b"\0\x50\0\7",
    "\0": b"\0\0",
    "æ": b"\0\x20\0\x60",
}
#: Three levels: an accent has no first weight; ``ﬀ`` is ``ff``, but for the third level.
LEVELS = {
    " ": (b"\0\7", b"\0\x20", b"\0\2"),
    "\xa0": (b"\0\7", b"\0\x20", b"\0\x1b"),
    "\t": (b"\0\5", b"\0\x20", b"\0\2"),
    "a": (b"\0\x40", b"\0\x20", b"\0\2"),
    "A": (b"\0\x40", b"\0\x20", b"\0\x08"),
    "á": (b"\0\x40", b"\0\x20\0\x24", b"\0\2\0\2"),
    "\N{COMBINING ACUTE ACCENT}": (b"", b"\0\x24", b"\0\2"),
    "f": (b"\0\x50", b"\0\x20", b"\0\2"),
    "ﬀ": (b"\0\x50\0\x50", b"\0\x20\0\x20", b"\0\4\0\4"),
    "⸗": (b"", b"", b""),
}


def codes(weights: dict[str, bytes]) -> dict[int, bytes]:
    return {ord(character): weight for character, weight in weights.items()}


def one_level(pad_space: bool) -> Collation:
    return Collation(f"one_{pad_space}", codes(WEIGHTS), pad_space=pad_space)


def several_levels(pad_space: bool) -> Collation:
    return Collation(f"levels_{pad_space}", {ord(c): w for c, w in LEVELS.items()}, pad_space=pad_space)


@cache
def made(levels: int, pad_space: bool) -> Collation:
    return several_levels(pad_space) if levels > 1 else one_level(pad_space)


def _units(data: bytes) -> list[int]:
    return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


def compared(a: str, b: str, levels: int, pad_space: bool) -> int:
    """-1, 0 or 1, as the servers find it."""
    for level in range(levels):
        weights = LEVELS if levels > 1 else {c: (w,) for c, w in WEIGHTS.items()}
        one, other = (_units(b"".join(weights[c][level] for c in text)) for text in (a, b))
        pad = _units(weights[" "][level])[0] if pad_space else -1
        for x, y in zip_longest(one, other, fillvalue=pad):
            if x != y:
                return -1 if x < y else 1
    return 0


CASES = pytest.mark.parametrize(("levels", "pad_space"), list(product((1, 3), (True, False))))


def check(a: str, b: str, levels: int, pad_space: bool) -> None:
    collation = made(levels, pad_space)
    expected = compared(a, b, levels, pad_space)
    one, other = collation.order(a), collation.order(b)
    assert (one > other) - (one < other) == expected
    assert (collation.normal(a) == collation.normal(b)) is (expected == 0)
    assert one == other or not other.startswith(one)
    for text, order in ((a, one), (b, other)):
        normal = collation.normal(text)
        assert compared(text, normal, levels, pad_space) == 0
        assert collation.normal(normal) == normal
        assert collation.text(order + b"\1 more") == (normal, len(order))


@CASES
def test_all_short_texts(levels: int, pad_space: bool) -> None:
    characters = LEVELS if levels > 1 else WEIGHTS
    texts = ["".join(text) for n in range(3) for text in product(characters, repeat=n)]
    for a in texts:
        for b in texts[:: len(texts) // 40]:
            check(a, b, levels, pad_space)


@given(st.text("".join(WEIGHTS), max_size=6), st.text("".join(WEIGHTS), max_size=6), st.booleans())
@example("a ", "a \t", True)
@example("a  b", "a \t", True)
def test_texts_of_one_level(a: str, b: str, pad_space: bool) -> None:
    check(a, b, 1, pad_space)


@given(st.text("".join(LEVELS), max_size=6), st.text("".join(LEVELS), max_size=6), st.booleans())
@example("a\xa0", "a", True)
def test_texts_of_several_levels(a: str, b: str, pad_space: bool) -> None:
    check(a, b, 3, pad_space)


def test_normal_forms_are_small_letters() -> None:
    collation = one_level(pad_space=True)
    assert collation.normal("Aß⸗ S\xa0 ") == "ass s"


def test_code_points() -> None:
    padded = Collation.binary("utf8mb4_bin", pad_space=True)
    assert padded.normal("Ä b ") == "Ä b"
    texts = ["a\t", "a", "a b", "aa", "b", "\uffff", "\U0001f600"]
    assert sorted(texts, key=padded.order) == texts
    assert [padded.text(padded.order(text))[0] for text in texts] == texts


def test_characters_with_computed_weights_differ_and_sort_by_them() -> None:
    rest = Implicit(((0x4E00, 0x9FFF, 0xFB40), (0xE000, 0xF8FF, 0xFBC0)))
    listed = codes({"a": b"\0\x20", " ": b"\0\7"}) | {0xFA0E: b"\xfb\x40\xe5\xe5", 0x3230: b"\0\x20\xfb\x40\xe5\xe5"}
    collation = Collation("computed", listed, pad_space=True, rest=rest)
    assert collation.normal("\ufa0e日") == "日日"
    assert collation.normal("\u3230") == "a日"
    texts = ["a", "一", "日", "\ue000", "ж"]
    assert sorted(texts, key=collation.order) == texts
    assert [collation.text(collation.order(text))[0] for text in texts] == texts


def test_characters_that_all_weigh_the_same() -> None:
    listed = codes({"a": b"\0\x20", " ": b"\0\7", "\ufffd": b"\xff\xfd"})
    collation = Collation("constant", listed, pad_space=True, rest=b"\xff\xfd")
    assert collation.normal("a😀") == collation.normal("a🎉") == "a\ufffd"


def test_characters_outside_of_the_character_set_differ_from_all() -> None:
    collation = one_level(pad_space=True)
    assert collation.normal("日") == "日"
    assert collation.order("日") > collation.order("~~~")
    assert collation.text(collation.order("a日")) == ("a日", len(collation.order("a日")))


def contracted() -> Collation:
    listed = codes(
        {
            "เ": b"\0\x51",
            "ก": b"\0\x40",
            "ข": b"\0\x41",
            "a": b"\0\x20",
            " ": b"\0\7",
            "\N{COMBINING GRAPHEME JOINER}": b"",
        }
    )
    swapped = {"เก": b"\0\x40\0\x51", "เข": b"\0\x41\0\x51"}
    return Collation("contracted", listed, pad_space=False, contractions=swapped)


def test_contractions() -> None:
    collation = contracted()
    assert collation.order("เก") < collation.order("ข") < collation.order("เ\N{COMBINING GRAPHEME JOINER}ก")
    assert collation.normal("เก") == "กเ"
    # What is one after the other in a normal form is not read together.
    together = collation.normal("เกก")
    assert together == "กเ\N{COMBINING GRAPHEME JOINER}ก"
    assert collation.normal(together) == together
    assert collation.text(collation.order("เกก"))[0] == together


def ambiguous() -> Iterator[dict[str, bytes]]:
    # ab·c and a·bc weigh the same, with neither b nor bc made of others.
    yield {"a": b"\0\1", "c": b"\0\3", "½": b"\0\1\0\2", "¼": b"\0\2\0\3", " ": b"\0\7"}
    yield {"⅓": b"\0\1\0\2", "⅔": b"\0\2\0\1", "a": b"\0\1", " ": b"\0\7"}


@pytest.mark.parametrize("weights", list(ambiguous()))
def test_weights_that_can_be_read_in_several_ways(weights: dict[str, bytes]) -> None:
    collation = Collation("ambiguous", codes(weights), pad_space=False)
    texts = ["".join(text) for n in range(4) for text in product(weights, repeat=n)]
    by_weights: dict[bytes, set[str]] = {}
    for text in texts:
        by_weights.setdefault(b"".join(weights[c] for c in text), set()).add(collation.normal(text))
    assert all(len(normals) == 1 for normals in by_weights.values())
    assert len({min(normals) for normals in by_weights.values()}) == len(by_weights)


def test_what_cannot_be_told_apart_is_refused() -> None:
    shared = {
        ord("a"): (b"\0\1", b"\0\x20"),
        ord("\N{COMBINING ACUTE ACCENT}"): (b"", b"\0\x20"),
        ord(" "): (b"\0\7", b"\0\x20"),
    }
    with pytest.raises(ValueError, match="do not say whether"):
        Collation("shared", shared, pad_space=True)
    with pytest.raises(ValueError, match="has not one weight"):
        Collation("no space", codes({"a": b"\0\1"}), pad_space=True)
    with pytest.raises(ValueError, match="be distinguished"):
        Collation("joined", codes({"c": b"\0\1", "h": b"\0\2"}), pad_space=False, contractions={"ch": b"\0\2\0\1"})


def test_collations_go_by_name() -> None:
    one, other = one_level(pad_space=True), one_level(pad_space=True)
    assert one == other
    assert hash(one) == hash(other)
    text = SqlType("text", "text", collation=one.name, weights=one)
    bytewise = Collation("x", {}, pad_space=False, rest=CodePoints())
    assert {text: 1}[SqlType("text", "text", collation=one.name, weights=other)] == 1
    assert text != SqlType("text", "text", collation="x", weights=bytewise)


@CASES
def test_collations_are_carried_between_processes(levels: int, pad_space: bool) -> None:
    collation = made(levels, pad_space)
    read = pickle.loads(pickle.dumps(collation))
    assert read == collation
    assert read.order("a ⸗A日") == collation.order("a ⸗A日")
    assert read.text(collation.order(" a")) == collation.text(collation.order(" a"))


def test_no_text_has_unknown_weights() -> None:
    collation = one_level(pad_space=True)
    for data in (b"", b"\xff", b"\x44\x07\x01"):
        with pytest.raises(ValueError):
            collation.text(data)
