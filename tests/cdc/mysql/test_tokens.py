"""Tokens of statements: strings and comments, which hide nothing of each other."""

import pytest

from cdc.mysql.tokens import ANSI_QUOTES, MSSQL, NO_BACKSLASH_ESCAPES, TokenKind, UnknownSyntax, tokens_of


@pytest.mark.parametrize(
    ("text", "sql_mode", "words"),
    [
        ("a  b\tc\nd\x0be", 0, ["a", "b", "c", "d", "e"]),
        ("'see #12' a", 0, ["see #12", "a"]),
        ("'-- /* ' a '*/'", 0, ["-- /* ", "a", "*/"]),
        ('\'it\'\'s\' "so ""it"" is" `a``b`', 0, ["it's", 'so "it" is', "a`b"]),
        (r"'a\' # b' c", 0, [r"a\' # b", "c"]),
        (r"'a\' # b' c", NO_BACKSLASH_ESCAPES, ["a\\"]),
        (r"'a\\' b", 0, [r"a\\", "b"]),
        (r'"a\" # b" c', 0, [r"a\" # b", "c"]),
        ('"a\\" b', ANSI_QUOTES, ["a\\", "b"]),
        (r"`a\` b", 0, ["a\\", "b"]),
        ("'a' 'b'", 0, ["a", "b"]),
        ("a # ' b\nc", 0, ["a", "c"]),
        ("a -- ' b\nc", 0, ["a", "c"]),
        ("a --\tb\nc --", 0, ["a", "c"]),
        ("a --b", 0, ["a", "-", "-", "b"]),
        ("a/* ' */b /**/ c", 0, ["a", "b", "c"]),
        ("a /*!50000 b */ /*! c */ /*M!100100 d */ /*M! e */", 0, ["a", "b", "c", "d", "e"]),
        ("a /*!40005b*/ /*!999c*/", 0, ["a", "b", "999c"]),
        ("a /*! b /* c */ d */ e", 0, ["a", "b", "d", "e"]),
        ("a /*!50000 '*/' */ b", 0, ["a", "*/", "b"]),
        ("a.b .c 1.5e3 x'00'", 0, ["a", ".", "b", ".", "c", "1", ".", "5e3", "x", "00"]),
        ("größe \u3000 a\xa0b", 0, ["größe", "\u3000", "a\xa0b"]),
        ("[a b]]c] d", MSSQL, ["a b]c", "d"]),
        ("[a]", 0, ["[", "a", "]"]),
        ("a; ;", 0, ["a"]),
        ("", 0, []),
    ],
)
def test_tokens(text: str, sql_mode: int, words: list[str]) -> None:
    """The server's rules, mode by mode."""
    assert [token.text for token in tokens_of(text, sql_mode)] == words


def test_kinds() -> None:
    """Only words and signs can be keywords."""
    found = {token.text: (token.kind, token.keyword) for token in tokens_of("drop , `after` 'first'", 0)}
    assert found == {
        "drop": (TokenKind.WORD, "DROP"),
        ",": (TokenKind.SIGN, ","),
        "after": (TokenKind.NAME, "name"),
        "first": (TokenKind.STRING, "string"),
    }
    assert [t.kind for t in tokens_of('"a"', 0)] == [TokenKind.STRING]
    assert [t.kind for t in tokens_of('"a"', ANSI_QUOTES)] == [TokenKind.NAME]


@pytest.mark.parametrize(
    "text", ["'a", '"a', "`a", "a /* b", "a */", "/*! a", "/*! a /*! b */ c */", "a\x00b", "a \x1f", r"'a\'"]
)
def test_unknown_syntax(text: str) -> None:
    """A text that is none of the server's raises."""
    with pytest.raises(UnknownSyntax):
        tokens_of(text, 0)


def test_long_texts() -> None:
    """Time grows with the length only, also without an end."""
    with pytest.raises(UnknownSyntax):
        tokens_of("'" + "a''" * 200_000 + "\\", 0)
    with pytest.raises(UnknownSyntax):
        tokens_of("/*" + "*" * 200_000, 0)
