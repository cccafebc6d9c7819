"""A view's SQL as the upstream runs it: parameters numbered and, where their types are known, cast; lists as arrays.

Works on tokens, so that it also does for SQL that has no syntax tree here.

Not here: what the SQL means (`lower`), what it reads (`reads`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dataflow.errors import InvalidQuery, Span
from dataflow.sql.dialects import dialect_of
from dataflow.sql.syntax.parse import tokens_of

#: ``IN (:p)`` with a list, and with one value.
_LISTED = {"in": "= ANY", "not in": "<> ALL"}
_SINGLE = {"in": "IN", "not in": "NOT IN"}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of a parameter, which is at `place`. `listed`: ``in`` or ``not in`` where it is all that an IN
    compares with, which is then in `span`; "" behind ANY or ALL, which take arrays; None where one value must be."""

    name: str
    place: Span
    span: Span
    listed: str | None = None


@dataclass(frozen=True, slots=True)
class Rendered:
    """A text for the upstream. `pieces`: where each of its parts begins, and where that is in the user's SQL."""

    text: str
    pieces: tuple[tuple[int, int], ...]

    def original(self, offset: int) -> int:
        """The place in the user's SQL of an offset in the text."""
        own, users = next(((own, users) for own, users in reversed(self.pieces) if own <= offset), (0, 0))
        following = [start for _, start in self.pieces if start > users]
        return min(users + offset - own, min(following, default=users + offset - own))


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with named parameters."""

    sql: str
    occurrences: tuple[Occurrence, ...]
    #: Behind the last token that means something.
    end: int
    names: tuple[str, ...] = field(init=False)
    #: Parameters that take a list.
    lists: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(sorted({o.name for o in self.occurrences})))
        single = {o.name for o in self.occurrences if o.listed is None}
        object.__setattr__(self, "lists", frozenset(self.names) - single)

    def numbered(self, casts: Mapping[str, str] | None = None) -> Rendered:
        """Each parameter as ``$n``, in the order of `names`, cast to its type if `casts` has it."""
        numbers = {name: f"${number}" for number, name in enumerate(self.names, start=1)}
        types = casts or {}

        def mark(_: int, name: str) -> str:
            return f"({numbers[name]}::{types[name]})" if name in types else numbers[name]

        return self._rendered(mark)

    def apart(self) -> Rendered:
        """Each occurrence as a parameter of its own, so that the upstream says what each must be."""
        return self._rendered(lambda number, _: f"${number + 1}")

    def _rendered(self, mark: Callable[[int, str], str]) -> Rendered:
        parts: list[str] = []
        pieces: list[tuple[int, int]] = []
        own = users = 0
        for number, occurrence in enumerate(self.occurrences):
            value = mark(number, occurrence.name)
            if occurrence.listed:
                operators = _LISTED if occurrence.name in self.lists else _SINGLE
                value = f"{operators[occurrence.listed]} ({value})"
            for text, start in ((self.sql[users : occurrence.span.start], users), (value, occurrence.span.start)):
                pieces.append((own, start))
                parts.append(text)
                own += len(text)
            users = occurrence.span.end
        pieces.append((own, users))
        parts.append(self.sql[users : self.end])
        return Rendered("".join(parts), tuple(pieces))


def statement_of(sql: str, dialect: str = "postgres") -> Statement:
    """The parameters of a SQL text. InvalidQuery if it cannot even be cut into words."""
    try:
        tokens = list(tokens_of(sql, dialect_of(dialect).grammar))
    except TokenError as error:
        raise InvalidQuery("The SQL has a string, identifier or comment that does not end.") from error
    occurrences: list[Occurrence] = []
    for position, token in enumerate(tokens):
        parts = token.text.split("@")
        before = tokens[position - 1] if position else None
        if len(parts) == 3 and before is not None and before.token_type is TokenType.COLON and before.end == token.end:
            occurrences.append(_occurrence(tokens, position, parts[0], Span(int(parts[1]), int(parts[2]))))
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return Statement(sql, tuple(occurrences), tokens[-1].end + 1 if tokens else 0)


def _occurrence(tokens: list[Token], position: int, name: str, span: Span) -> Occurrence:
    """The parameter whose name is at `position`, behind its colon."""
    first = position - 1
    closed = position + 1 < len(tokens) and tokens[position + 1].token_type is TokenType.R_PAREN
    if not closed or first < 2 or tokens[first - 1].token_type is not TokenType.L_PAREN:
        return Occurrence(name, span, span)
    start = first - 2
    if tokens[start].token_type in (TokenType.ANY, TokenType.ALL, TokenType.SOME):
        return Occurrence(name, span, span, "")
    if tokens[start].token_type is not TokenType.IN:
        return Occurrence(name, span, span)
    negated = start > 0 and tokens[start - 1].token_type is TokenType.NOT
    begin = tokens[start - 1 if negated else start].start
    return Occurrence(name, span, Span(begin, tokens[position + 1].end + 1), "not in" if negated else "in")
