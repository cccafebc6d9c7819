"""SQL text to a syntax tree: one query, without side effects, its parameters named.

Parameters are written ``:name``, ``?`` or ``$1``; the latter two are named ``p1``, ``p2`` … One may also be a claim of
who asks: ``:claims.sub``, or a member of one, ``:claims.org.id``. In the tree they are placeholders that carry their
place (`parameter_name`, `parameter_span`).

Not here: what the names mean (`expressions.scope`), which SQL can be planned (`select` and what it calls).
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dataflow.errors import InvalidQuery, Span, UnsupportedQuery
from dataflow.sql.syntax.grammar import Grammar

_NUMBERED = re.compile(r"\$\d+")
#: The word that parameters bound from a token begin with.
_CLAIMS = "claims"
#: Behind these, ``?`` is an operator of jsonb and no parameter.
_OPERAND_ENDS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.STRING}
_NOTHING_BEFORE = {
    TokenType.COMMA,
    TokenType.SELECT,
    TokenType.L_PAREN,
    TokenType.GROUP_BY,
    TokenType.ORDER_BY,
    TokenType.PARTITION_BY,
}
_NOTHING_BEHIND = {TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN, TokenType.SEMICOLON, TokenType.WHERE}
_DEEPER = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}
_LESS_DEEP = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}
_MAX_DEPTH = 100
_WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.DDL, exp.Command, exp.Into, exp.Drop, exp.Alter)


def parse(sql: str, grammar: Grammar) -> exp.Query:
    """The one SELECT (or UNION …) that `sql` is. InvalidQuery says what is wrong with it, and where."""
    try:
        tokens = tokens_of(sql, grammar)
    except TokenError as error:
        raise InvalidQuery("The SQL has a string, identifier or comment that does not end.") from error
    _check_commas(tokens)
    _check_depth(tokens)
    try:
        statements = _statements(tokens, sql, grammar)
    except ParseError as error:
        raise _syntax_error(error, sql) from error
    except RecursionError:
        raise InvalidQuery("The SQL is nested too deeply.") from None
    if not statements:
        raise InvalidQuery("The SQL is empty.", hint="Write one SELECT.")
    if len(statements) > 1:
        raise InvalidQuery(
            "A view is one statement; this SQL has several.", _second(tokens), "Register them one by one."
        )
    query = _query(statements[0], grammar)
    _check_parameters(query, tokens)
    return query


def _check_depth(tokens: Sequence[Token]) -> None:
    """The parser needs several calls for each level."""
    depth = 0
    for token in tokens:
        if token.token_type in _DEEPER:
            depth += 1
            if depth > _MAX_DEPTH:
                place = Span(token.start, token.end + 1)
                raise InvalidQuery(f"The SQL is nested too deeply: more than {_MAX_DEPTH} levels.", place)
        elif token.token_type in _LESS_DEEP:
            depth -= 1


def _query(statement: exp.Expr, grammar: Grammar) -> exp.Query:
    """The statement, if it only reads."""
    for node in statement.walk():
        if isinstance(node, _WRITES):
            raise InvalidQuery(
                "A view only reads: it must be a SELECT that changes nothing.", _place(node), "Remove the write."
            )
        if isinstance(node, exp.Lock):
            raise InvalidQuery("A view takes no locks.", _place(node), "Remove FOR UPDATE or FOR SHARE.")
        name = str(node.name if isinstance(node, exp.Anonymous) else node.key).lower()
        if grammar.has_side_effects(name):
            raise InvalidQuery(f"A view changes nothing, so it cannot call {name}.", _place(node))
    if isinstance(statement, exp.Query):
        return statement
    if isinstance(statement, exp.Values):
        raise UnsupportedQuery("VALUES reads no table.", _place(statement))
    raise InvalidQuery("A view is a SELECT.")


def _place(node: exp.Expr) -> Span | None:
    """The hull of the names below a node."""
    places = [(p.meta["start"], p.meta["end"] + 1) for p in node.walk() if isinstance(p.meta.get("start"), int)]
    return Span(min(start for start, _ in places), max(end for _, end in places)) if places else None


@lru_cache(maxsize=4)
def tokens_of(sql: str, grammar: Grammar) -> tuple[Token, ...]:
    """The words of a SQL text; each parameter is a colon and ``name@start@end``, both in its place. TokenError.

    A text is read several times in a row: for its effects, its names, its tree.
    """
    grammar.check(sql)
    return tuple(_named_parameters(grammar.parsing.tokenize(sql), sql, grammar))


def tree_of(sql: str, grammar: Grammar) -> exp.Expr:
    """The syntax tree of one statement, whatever it does. ParseError, TokenError; InvalidQuery if it is not one."""
    statements = _statements(tokens_of(sql, grammar), sql, grammar)
    if len(statements) != 1:
        raise InvalidQuery("A view is one statement.")
    return statements[0]


def _statements(tokens: Sequence[Token], sql: str, grammar: Grammar) -> list[exp.Expr]:
    """The trees of all statements. ParseError."""
    statements = [s for s in grammar.parsing.parser().parse(list(tokens), sql) if s is not None]
    if grammar.cut is not None:
        for statement in statements:
            for identifier in statement.find_all(exp.Identifier):
                identifier.set("this", grammar.cut(identifier.name))
    return statements


def _named_parameters(tokens: Sequence[Token], sql: str, grammar: Grammar) -> list[Token]:
    """The tokens with every parameter as ``:name@start@end``, which the parser makes a placeholder of."""
    result: list[Token] = []
    questions = 0
    position = 0
    while position < len(tokens):
        token = tokens[position]
        after = tokens[position + 1] if position + 1 < len(tokens) else None
        adjacent = after is not None and after.start == token.end + 1
        if token.token_type is TokenType.COLON and adjacent and after is not None and _is_word(sql, after):
            last = _end_of_name(tokens, position + 1, sql)
            result += _placeholder(token, tokens[last].end, sql[after.start : tokens[last].end + 1])
            position = last
        elif (
            not grammar.dollar_words
            and token.token_type is TokenType.PARAMETER
            and adjacent
            and after is not None
            and after.text.isdecimal()
        ):
            result += _placeholder(token, after.end, f"p{int(after.text)}")
            position += 1
        elif grammar.dollar_words and token.token_type is TokenType.VAR and _NUMBERED.fullmatch(token.text):
            result += _placeholder(token, token.end, f"p{int(token.text[1:])}")
        elif token.token_type is TokenType.PLACEHOLDER and not (
            grammar.question_operators and result and result[-1].token_type in _OPERAND_ENDS
        ):
            questions += 1
            result += _placeholder(token, token.end, f"p{questions}")
        else:
            if token.token_type is TokenType.NUMBER and adjacent and after is not None and _is_word(sql, after):
                raise UnsupportedQuery("A number runs into a word.", Span(token.start, after.end + 1))
            result.append(token)
        position += 1
    return result


def _end_of_name(tokens: Sequence[Token], first: int, sql: str) -> int:
    """Returns the end of a parameter's name that begins with that token; claims have several words, joined by dots."""
    word = sql[tokens[first].start : tokens[first].end + 1]
    if word.lower() != _CLAIMS:
        return first
    last = first
    while _is_next(tokens, last, sql):
        last += 2
    # Any other spelling would be a parameter that clients set, where one was meant that they cannot.
    if last == first or word != _CLAIMS or sql[tokens[last].end + 1 : tokens[last].end + 2] == ".":
        span = Span(tokens[first].start - 1, tokens[last].end + 1)
        raise InvalidQuery(f"A claim of the token is written :{_CLAIMS}.name, in lower case and without spaces.", span)
    return last


def _is_next(tokens: Sequence[Token], last: int, sql: str) -> bool:
    """Return whether a dot and a word follow, without anything between."""
    if last + 2 >= len(tokens):
        return False
    dot, word, end = tokens[last + 1], tokens[last + 2], tokens[last].end
    return dot.token_type is TokenType.DOT and (dot.start, word.start) == (end + 1, end + 2) and _is_word(sql, word)


def _check_commas(tokens: Sequence[Token]) -> None:
    """The parser overlooks commas with nothing on one side."""
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if token.token_type is not TokenType.COMMA:
            continue
        opens = before is None or before.token_type in _NOTHING_BEFORE or before.text.upper() in ("ON", "AS")
        if opens or after is None or after.token_type in _NOTHING_BEHIND:
            raise InvalidQuery('The SQL has a syntax error near ",".', Span(token.start, token.end + 1))


def _check_parameters(query: exp.Query, tokens: Sequence[Token]) -> None:
    """Refuse parameters in places where the parser expects none and takes them, or other tokens, for something else."""
    found = {str(node.this) for node in query.find_all(exp.Placeholder)}
    if not found <= {token.text for token in tokens if token.token_type is TokenType.VAR}:
        raise InvalidQuery("A parameter's name is a word, without quotes.")
    for before, token in pairwise(tokens):
        if before.token_type is TokenType.COLON and "@" in token.text and token.text not in found:
            raise InvalidQuery("No parameter can stand here.", Span(token.start, token.end + 1))


def _is_word(sql: str, token: Token) -> bool:
    return sql[token.start] == "_" or sql[token.start].isalpha()


def _placeholder(token: Token, end: int, name: str) -> list[Token]:
    place = (token.line, token.col, token.start, end)
    text = f"{name}@{token.start}@{end + 1}"
    return [Token(TokenType.COLON, ":", *place), Token(TokenType.VAR, text, *place)]


def parameter_name(node: exp.Placeholder) -> str:
    """The name of a parameter."""
    return str(node.this).rsplit("@", 2)[0]


def placeholder_of(name: str, span: Span | None, parent: exp.Expr) -> exp.Placeholder:
    """A parameter that is not written, for what stands at a place in a node."""
    place = Span(0, 0) if span is None else span
    placeholder = exp.Placeholder(this=f"{name}@{place.start}@{place.end}")
    placeholder.parent = parent
    return placeholder


def parameter_span(node: exp.Placeholder) -> Span:
    """The place of a parameter."""
    _, start, end = str(node.this).rsplit("@", 2)
    return Span(int(start), int(end))


def _second(tokens: Sequence[Token]) -> Span | None:
    """The start of the second statement."""
    ends = [i for i, token in enumerate(tokens) if token.token_type is TokenType.SEMICOLON]
    rest = tokens[ends[0] + 1 :] if ends else []
    return Span(rest[0].start, rest[-1].end + 1) if rest else None


def _syntax_error(error: ParseError, sql: str) -> InvalidQuery:
    first = error.errors[0] if error.errors else {}
    line, column, word = first.get("line"), first.get("col"), first.get("highlight") or ""
    span = None
    if isinstance(line, int) and isinstance(column, int):
        end = sum(len(text) + 1 for text in sql.split("\n")[: line - 1]) + column
        span = Span(max(end - len(word), 0), end)
    near = f' near "{word.split("@")[0]}"' if word else ""
    return InvalidQuery(f"The SQL has a syntax error{near}.", span)
