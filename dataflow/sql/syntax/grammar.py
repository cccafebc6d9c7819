"""Words and syntax of a dialect: how its texts are cut and parsed, and which functions do more than read.

Not here: what expressions mean (`expressions.dialect`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot.dialects.dialect import Dialect as Parsing

#: A comment that ends where every database says so.
BLOCK_COMMENT = r"/\*(?:(?!/\*|\*/|[!+]).)(?:(?!/\*|\*/).)*\*/|/\*\*/"


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """The words and syntax of one dialect."""

    parsing: Parsing
    #: Whether calling a function, given in lower case, does more than read.
    has_side_effects: Callable[[str], bool]
    #: Blanks and comments that are certainly nothing else.
    gap: re.Pattern[str]
    #: A word without its case, where that means nothing.
    folded: Callable[[str], str]
    #: The name that a quoted word means, where plain ones are in lower case.
    unquoted: Callable[[str], str]
    #: Cuts a name to as many bytes as catalogs have room for; None: names are never cut.
    cut: Callable[[str], str] | None = None
    #: Raises for a text that the parser would misread.
    check: Callable[[str], None] = lambda _sql: None
    #: Whether ``?`` can be an operator.
    question_operators: bool = False
    #: Whether the word INTO writes somewhere.
    into_writes: bool = False
    #: Whether ``$1`` is one word.
    dollar_words: bool = False


def unescaped(text: str) -> str:
    """The text of a word, escapes of ``U&'…'`` and ``U&"…"`` read."""
    return _CODE_POINT.sub(lambda found: chr(int(found[1] or found[2], 16) % 0x110000), text)


_CODE_POINT = re.compile(r"\\([0-9a-fA-F]{4})|\\\+([0-9a-fA-F]{6})")
