"""How a dialect's texts are cut into words and parsed, and which functions do more than read.

Not here: what expressions mean (`dialects`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot.dialects.dialect import Dialect as Parsing

from dataflow.sql import side_effects
from dataflow.sql.mysql import grammar as mysql
from dataflow.sql.mysql import side_effects as mysql_side_effects
from dataflow.sql.postgres_grammar import POSTGRES


@dataclass(frozen=True, slots=True)
class Grammar:
    """The words and syntax of one dialect."""

    parsing: Parsing
    #: Whether calling a function, given in lower case, does more than read.
    has_side_effects: Callable[[str], bool]
    #: Raises for a text that the parser would misread.
    check: Callable[[str], None] = lambda _sql: None
    #: Whether ``?`` can be an operator.
    question_operators: bool = False
    #: Whether the word INTO writes somewhere.
    into_writes: bool = False
    #: Whether ``$1`` is one word.
    dollar_words: bool = False
    #: Whether names are cut to so many bytes as catalogs have room for.
    cuts_names: bool = False


_POSTGRES = Grammar(POSTGRES, side_effects.has_side_effects, question_operators=True, cuts_names=True)
_MYSQL = Grammar(mysql.MYSQL, mysql_side_effects.has_side_effects, mysql.check, into_writes=True, dollar_words=True)
_GRAMMARS = {"postgres": _POSTGRES, "mariadb": _MYSQL, "mysql": _MYSQL}


def grammar_of(dialect: str) -> Grammar:
    """The grammar of a `Catalog.dialect`."""
    return _GRAMMARS[dialect]
