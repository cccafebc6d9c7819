"""Statements and functions that do more than read, told by the words alone: also where a text has no syntax tree.

Not here: the same for what has one (`syntax.parse`), which says more of where.
"""

from collections.abc import Sequence

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dataflow.errors import InvalidQuery, Span
from dataflow.sql.dialects import dialect_of
from dataflow.sql.syntax.grammar import Grammar
from dataflow.sql.syntax.parse import tokens_of

#: What a statement that gives rows may begin with.
_BEGINS = frozenset({"select", "with", "values", "table", "("})
#: Two words that begin a change, or take locks.
_CHANGES = frozenset({("insert", "into"), ("delete", "from"), ("merge", "into")})
_LOCKS = frozenset({("for", "update"), ("for", "share"), ("for", "no"), ("for", "key"), ("lock", "in")})


def check_effects(sql: str, dialect: str = "postgres") -> None:
    """Raises `InvalidQuery` for what is not one statement that only reads."""
    grammar = dialect_of(dialect).grammar
    try:
        tokens = tokens_of(sql, grammar)
    except TokenError as error:
        raise InvalidQuery("The SQL has a string, identifier or comment that does not end.") from error
    words = ["" if t.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else t.text.lower() for t in tokens]
    if words and words[0] not in _BEGINS:
        raise InvalidQuery("A view is a SELECT.", _span(tokens[0]))
    for i, (token, word) in enumerate(zip(tokens, words, strict=True)):
        after = words[i + 1] if i + 1 < len(words) else ""
        before = words[i - 1] if i else ""
        updates = word == "update" and before == "(" and "set" in words[i:]
        writes_into = grammar.into_writes and word == "into"
        if updates or writes_into or ((word, after) in _CHANGES and before != "."):
            reason = "A view only reads: it must be a SELECT that changes nothing."
            raise InvalidQuery(reason, _span(token), "Remove the write.")
        if (word, after) in _LOCKS and before != "(":
            raise InvalidQuery("A view takes no locks.", _span(token), "Remove FOR UPDATE or FOR SHARE.")
        if after == "(" and token.token_type is not TokenType.STRING:
            _check_call(tokens, i, grammar)


def _check_call(tokens: Sequence[Token], i: int, grammar: Grammar) -> None:
    """Refuses a call, by a quoted name too, of a function with side effects that is in no schema but the database's."""
    token = tokens[i]
    before = [t.text.lower() for t in tokens[max(0, i - 2) : i]]
    if token.token_type is TokenType.IDENTIFIER and before == ["u", "&"]:
        raise InvalidQuery("A function that is called is written without escapes.", _span(token))
    if before[-1:] == ["as"] or (before[-1:] == ["."] and before[0] != "pg_catalog"):
        return
    name = token.text.lower()
    if grammar.has_side_effects(name):
        raise InvalidQuery(f"A view changes nothing, so it cannot call {name}.", _span(token))


def _span(token: Token) -> Span:
    return Span(token.start, token.end + 1)
