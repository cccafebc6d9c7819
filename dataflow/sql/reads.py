"""Reads of a SQL text, for views that are run upstream again when these change (`plan.refresh`).

Which tables are read is the upstream's to say; what is found here only says which of their rows and columns do not
matter, and errs on the side of mattering: a table that the text names in a way that is not understood here is read
whole.

*Theory*: a row of one mention of a table that fails a condition on that mention alone makes no difference to the SELECT
it stands in, if the condition is ANDed in WHERE, or in ON where failing means not being joined. Where an outer join may
put NULLs in the row's place, the condition must fail for these as well, since the row may be what kept them out.

Not here: whether functions and tables are what the change stream says all about
(`service.engine.databases.postgres.describe`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dataflow.errors import EvaluationError, InvalidQuery, UnsupportedQuery
from dataflow.evaluate import compile_predicate
from dataflow.plan.expressions import TRUE
from dataflow.plan.refresh import RefreshParameter, TableRead
from dataflow.scalar import Call, ColumnRef, Scalar
from dataflow.schema import Catalog, Table
from dataflow.sql.dialects import dialect_of
from dataflow.sql.expressions.aggregates import refuse_aggregate
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import cast_type
from dataflow.sql.expressions.scope import FromItem, NamedColumn, Scope, find_table, name_of
from dataflow.sql.syntax.grammar import unescaped
from dataflow.sql.syntax.parse import parameter_name, tokens_of, tree_of
from dataflow.types import Row

_MATCHING = frozenset({TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE, TokenType.IRLIKE, TokenType.SIMILAR_TO})
#: What ends an operand.
_ENDING = frozenset(
    {
        None,
        TokenType.AND,
        TokenType.OR,
        TokenType.R_PAREN,
        TokenType.COMMA,
        TokenType.ORDER_BY,
        TokenType.GROUP_BY,
        TokenType.LIMIT,
        TokenType.FROM,
        TokenType.ALIAS,
    }
)
#: A column of a mention, by the name it is called by.
_Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SqlWords:
    """The words of a SQL text, folded as the upstream folds names: of MariaDB and MySQL, all in lower case."""

    #: Everything that may be a name.
    names: frozenset[str]
    #: Those that stand before a parenthesis.
    called: frozenset[str]
    #: Keywords and plain names that nothing qualifies: ``current_date``, ``user``.
    bare: frozenset[str]
    strings: tuple[str, ...]
    #: The text without its strings and comments.
    rest: str


def words_of(sql: str, dialect: str = "postgres") -> SqlWords:
    """The words of a text. InvalidQuery if it has none."""
    grammar = dialect_of(dialect).grammar
    try:
        tokens = tokens_of(sql, grammar)
    except TokenError as error:
        raise InvalidQuery("The SQL has a string, identifier or comment that does not end.") from error
    names: set[str] = set()
    called: set[str] = set()
    bare: set[str] = set()
    strings: list[str] = []
    rest: list[str] = []
    for position, token in enumerate(tokens):
        if _is_string(token):
            if not _is_pattern(tokens, position):
                # Strings that only lines part are one.
                joined = position > 0 and _is_string(tokens[position - 1]) and strings
                strings.append((strings.pop() if joined else "") + unescaped(token.text))
            continue
        rest.append(token.text)
        if token.token_type is TokenType.IDENTIFIER:
            word = grammar.unquoted(token.text)
        elif token.text[:1].isalpha() or token.text[:1] == "_":
            word = token.text.lower()
            before = tokens[position - 1].token_type if position else None
            if before not in (TokenType.DOT, TokenType.ALIAS, TokenType.COLON):
                bare.add(word)
        else:
            continue
        word = word if grammar.cut is None else grammar.cut(word)
        names.add(word)
        if position + 1 < len(tokens) and tokens[position + 1].token_type is TokenType.L_PAREN:
            called.add(word)
    return SqlWords(frozenset(names), frozenset(called), frozenset(bare), tuple(strings), " ".join(rest))


def _is_pattern(tokens: Sequence[Token], position: int) -> bool:
    """Return whether a string is all that LIKE or a regular expression is given: text it is, and nothing else."""
    before = tokens[position - 1].token_type if position else None
    after = tokens[position + 1].token_type if position + 1 < len(tokens) else None
    return before in _MATCHING and after in _ENDING


def _is_string(token: Token) -> bool:
    return token.token_type is TokenType.STRING or token.token_type.name.endswith("_STRING")


def table_reads(
    texts: Sequence[str], tables: Iterable[str], catalog: Catalog, parameters: Sequence[RefreshParameter]
) -> tuple[TableRead, ...]:
    """How `tables` (all that is read, by the upstream's own account) are read by a view's SQL, the first of `texts`,
    and by the views of the upstream that it reads, the others."""
    wanted = {name: catalog.tables[name] for name in tables}
    trees: list[tuple[str, exp.Expr]] = []
    names: set[str] = set()
    #: ``TABLE stories`` has no tree that is known here.
    plain = True
    for text in texts:
        try:
            words = words_of(text, catalog.dialect)
            trees.append((text, tree_of(text, dialect_of(catalog.dialect).grammar)))
            names |= words.names
            plain = plain and "table" not in words.bare
        except (ParseError, TokenError, InvalidQuery, UnsupportedQuery, RecursionError):
            return tuple(_whole(table) for table in wanted.values())
    if not plain:
        return tuple(_whole(table) for table in wanted.values())
    every = any(map(_reads_every_column, (tree for _, tree in trees)))
    reads: dict[TableRead, None] = {}
    for position, (text, tree) in enumerate(trees):
        walk = _Walk(text, catalog, tree, parameters if position == 0 else ())
        for read in walk.reads():
            table = wanted.get(read.table)
            if table is not None:
                columns = range(len(table.columns)) if every else _named(table, names)
                reads[replace(read, columns=frozenset(columns))] = None
    found = {read.table for read in reads}
    for name, table in wanted.items():
        if name not in found:
            reads[_whole(table)] = None
    return tuple(reads)


def _whole(table: Table) -> TableRead:
    return TableRead(table.name, frozenset(range(len(table.columns))))


def _named(table: Table, names: set[str]) -> list[int]:
    return [i for i, column in enumerate(table.columns) if not names.isdisjoint((column.name, column.name.lower()))]


def _reads_every_column(tree: exp.Expr) -> bool:
    """Return whether columns may be read that are not named: ``*``, a row as a value, NATURAL JOIN, names given in
    FROM."""
    names = list(tree.find_all(exp.TableAlias))
    if any(alias.columns and not isinstance(_aliased(alias), exp.Query) for alias in names):
        return True
    aliases = {_alias(table) for table in tree.find_all(exp.Table)} | {
        name_of(alias.this) for alias in names if isinstance(alias.this, exp.Identifier)
    }
    if any(str(join.args.get("method") or "").upper() == "NATURAL" for join in tree.find_all(exp.Join)):
        return True
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return True
    # A name of something in FROM where a column may stand is its row; a schema may be before it.
    columns = (column for column in tree.find_all(exp.Column) if isinstance(column.this, exp.Identifier))
    return any(name_of(c.this) in aliases and not _is_of(c, aliases) for c in columns)


def _is_of(column: exp.Column, aliases: set[str]) -> bool:
    """Return whether a column is qualified by something in FROM."""
    table = column.args.get("table")
    return isinstance(table, exp.Identifier) and name_of(table) in aliases


def _aliased(alias: exp.TableAlias) -> exp.Expr | None:
    """An item of FROM: a query, without its parentheses, or a table, a join, a function."""
    named = alias.parent
    return named.this if isinstance(named, exp.Subquery | exp.CTE) else named


@dataclass(slots=True)
class _Mention:
    """A table in FROM whose rows can be told from the others'."""

    node: exp.Table
    alias: str
    table: Table
    #: Whether NULLs may stand in the place of its row, at the end of FROM.
    padded: bool = False
    conditions: list[Scalar] = field(default_factory=list)
    #: Columns that equal a parameter, by its position.
    keys: dict[int, int] = field(default_factory=dict)

    def read(self) -> TableRead:
        """The tables that it reads; columns are not known here."""
        predicate: Scalar | None = None
        if self.conditions:
            first, *others = dict.fromkeys(self.conditions)
            predicate = Call("and", (first, *others), TRUE.type) if others else first
        columns = {position: column for column, position in self.keys.items()}
        keys = tuple(sorted((column, position) for position, column in columns.items()))
        return TableRead(self.table.name, frozenset(), predicate, keys)


@dataclass(slots=True)
class _Walk:
    """The SELECTs of one text."""

    text: str
    catalog: Catalog
    tree: exp.Expr
    parameters: Sequence[RefreshParameter]
    _ctes: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._ctes = frozenset(name_of(cte.args["alias"].this) for cte in self.tree.find_all(exp.CTE))

    def reads(self) -> Iterator[TableRead]:
        """Every mention of a table."""
        understood: set[int] = set()
        yield from self._selects(self.tree, {}, understood)
        for node in self.tree.find_all(exp.Table):
            if id(node) not in understood:
                table = self._table(node)
                if table is not None:
                    yield TableRead(table.name, frozenset())

    def _table(self, node: exp.Table) -> Table | None:
        if not isinstance(node.this, exp.Identifier):
            return None
        try:
            return find_table(self.catalog, node)
        except (InvalidQuery, UnsupportedQuery):
            return None

    def _selects(self, node: exp.Expr, outer: Mapping[_Place, int], understood: set[int]) -> Iterator[TableRead]:
        """The mentions below `node`, in whose SELECTs the columns in `outer` equal parameters."""
        inner = outer
        if isinstance(node, exp.Select):
            mentions = self._mentions(node, understood)
            self._condition(node, mentions, outer)
            yield from (mention.read() for mention in mentions)
            hidden = set(map(_alias, _items(node)))
            inner = {place: position for place, position in outer.items() if place[0] not in hidden}
            for mention in mentions:
                for column, position in mention.keys.items():
                    inner[mention.alias, mention.table.columns[column].name] = position
        # WITH, and what stands in FROM without LATERAL, does not see what else is there.
        blind = {id(item) for item in _items(node) if not isinstance(item, exp.Lateral)}
        for child in node.iter_expressions():
            if isinstance(child, exp.With):
                yield from self._selects(child, outer, understood)
            elif isinstance(child, exp.From | exp.Join):
                for part in child.iter_expressions():
                    yield from self._selects(part, outer if id(part) in blind else inner, understood)
            else:
                yield from self._selects(child, inner, understood)

    def _mentions(self, select: exp.Select, understood: set[int]) -> list[_Mention]:
        """The tables that FROM names directly. After a RIGHT or FULL JOIN, all before it may be padded."""
        source = select.args.get("from_")
        if source is None:
            return []
        items: list[tuple[exp.Expr, str]] = [(source.this, "")]
        items += [(join.this, str(join.args.get("side") or "").upper()) for join in select.args.get("joins") or ()]
        mentions: list[_Mention] = []
        for item, side in items:
            if side in ("RIGHT", "FULL"):
                for before in mentions:
                    before.padded = True
            mention = self._mention(item)
            if mention is not None:
                mention.padded = side in ("LEFT", "FULL")
                mentions.append(mention)
                understood.add(id(item))
        return mentions

    def _mention(self, node: exp.Expr) -> _Mention | None:
        if not isinstance(node, exp.Table) or {k for k, v in node.args.items() if v} - {"this", "db", "alias"}:
            return None
        table = self._table(node)
        if table is None or (node.args.get("db") is None and name_of(node.this) in self._ctes):
            return None
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            return None
        return _Mention(node, _alias(node), table)

    # Conditions

    def _condition(self, select: exp.Select, mentions: list[_Mention], outer: Mapping[_Place, int]) -> None:
        """Notes at each mention what its rows must fulfil to matter."""
        only_tables = len(mentions) == len(_items(select))
        where = select.args.get("where")
        conjuncts = _conjuncts(where.this if where is not None else None)
        parts: list[tuple[exp.Expr, _Mention | None]] = [(part, None) for part in conjuncts]
        for join in select.args.get("joins") or ():
            side, on = str(join.args.get("side") or "").upper(), _conjuncts(join.args.get("on"))
            if side == "":
                parts += [(part, None) for part in on]
            elif side == "LEFT":
                own = next((m for m in mentions if m.node is join.this), None)
                parts += [(part, own) for part in on if own is not None]
        for part, joined in parts:
            self._local(part, mentions, joined, only_tables)
        # Equalities carry parameters on from column to column, until nothing is new.
        while sum(self._equality(part, mentions, joined, only_tables, outer) for part, joined in parts):
            pass

    def _local(self, part: exp.Expr, mentions: list[_Mention], joined: _Mention | None, only_tables: bool) -> None:
        """A condition on one mention. `joined`: the mention whose ON it is."""
        if part.find(exp.Query, exp.Placeholder) is not None:
            return
        columns = list(part.find_all(exp.Column))
        owners = {id(owner): owner for c in columns if (owner := _owner(c, mentions, only_tables)) is not None}
        if len(owners) != 1 or any(_owner(c, mentions, only_tables) is None for c in columns):
            return
        (mention,) = owners.values()
        if joined is not None and joined is not mention:
            return
        bound = self._bound(part, mention)
        if bound is not None and (joined is mention or not mention.padded or _fails_for_nulls(bound, mention.table)):
            mention.conditions.append(bound)

    def _bound(self, part: exp.Expr, mention: _Mention) -> Scalar | None:
        scope = Scope()
        named = tuple(
            NamedColumn(column.name, ColumnRef(i, column.type)) for i, column in enumerate(mention.table.columns)
        )
        scope.add(FromItem(mention.alias, named), None)
        try:
            dialect = dialect_of(self.catalog.dialect)
            bound = Binder(self.text, scope, dialect, refuse_aggregate, catalog=self.catalog).condition(part)
            compile_predicate(bound)
        except (UnsupportedQuery, InvalidQuery, EvaluationError, ValueError):
            return None
        return bound

    def _equality(
        self,
        part: exp.Expr,
        mentions: list[_Mention],
        joined: _Mention | None,
        only_tables: bool,
        outer: Mapping[_Place, int],
    ) -> bool:
        """Return whether ``column = parameter``, or ``column = column`` of which one equals one, says something new."""
        if not isinstance(part, exp.EQ):
            return False
        news = False
        for own, other in ((part.this, part.expression), (part.expression, part.this)):
            if isinstance(own, exp.Column):
                mention = _owner(own, mentions, only_tables)
                column = None if mention is None else _ordinal(mention.table, own)
                if mention is None or column is None or column in mention.keys:
                    continue
                if joined is not None and joined is not mention:
                    continue
                position = self._position(other, mentions, only_tables, outer)
                if position is not None and self._same(mention.table, column, position):
                    mention.keys[column] = position
                    news = True
        return news

    def _position(
        self, node: Any, mentions: list[_Mention], only_tables: bool, outer: Mapping[_Place, int]
    ) -> int | None:
        """The parameter that an expression equals."""
        while isinstance(node, exp.Paren):
            node = node.this
        placeholder = node.this if isinstance(node, exp.Cast) else node
        if isinstance(placeholder, exp.Placeholder):
            return self._parameter(placeholder, node)
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        owner = _owner(node, mentions, only_tables)
        if owner is not None:
            column = _ordinal(owner.table, node)
            return None if column is None else owner.keys.get(column)
        qualifier = node.args.get("table")
        if qualifier is None or node.args.get("db") is not None:
            return None
        return outer.get((name_of(qualifier), name_of(node.this)))

    def _parameter(self, placeholder: exp.Placeholder, node: exp.Expr) -> int | None:
        """The position of a parameter, perhaps cast to what is compared as its own type is."""
        name = parameter_name(placeholder)
        position = next((i for i, parameter in enumerate(self.parameters) if parameter.name == name), None)
        if position is None or node is placeholder:
            return position
        try:
            cast = cast_type(node.args["to"]).family
        except UnsupportedQuery:
            return None
        return position if cast == self.parameters[position].type.family else None

    def _same(self, table: Table, column: int, position: int) -> bool:
        """Return whether the column equals the parameter exactly if they are the same text."""
        own, parameter = table.columns[column].type, self.parameters[position]
        if parameter.many or own.kind == "array" or not (own.comparable and parameter.type.comparable):
            return False
        # A key has values as they print, which only of these types is their normal form.
        one_form = own.normal_form is None and parameter.type.normal_form is None
        return one_form and own.family == parameter.type.family


def _conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        return [*_conjuncts(node.this), *_conjuncts(node.expression)]
    return [] if node is None else [node]


def _items(node: exp.Expr) -> list[exp.Expr]:
    """The items of FROM."""
    source = node.args.get("from_")
    items = [] if source is None else [source.this]
    items += [join.this for join in node.args.get("joins") or ()]
    return [*items, *(node.args.get("laterals") or ())]


def _alias(item: exp.Expr) -> str:
    """The name of an item of FROM; "" if it has none."""
    alias = item.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.this is not None:
        return name_of(alias.this)
    return name_of(item.this) if isinstance(item.this, exp.Identifier) else ""


def _owner(column: exp.Column, mentions: list[_Mention], only_tables: bool) -> _Mention | None:
    """The mention that a column is of; None if it may be of something else."""
    if column.args.get("db") is not None or not isinstance(column.this, exp.Identifier):
        return None
    qualifier = column.args.get("table")
    if qualifier is not None:
        return next((m for m in mentions if m.alias == name_of(qualifier)), None)
    if not only_tables:
        return None
    found = [m for m in mentions if _ordinal(m.table, column) is not None]
    return found[0] if len(found) == 1 else None


def _ordinal(table: Table, column: exp.Column) -> int | None:
    name = name_of(column.this)
    return next((i for i, c in enumerate(table.columns) if c.name == name), None)


def _fails_for_nulls(condition: Scalar, table: Table) -> bool:
    nulls: Row = (None,) * len(table.columns)
    try:
        return not compile_predicate(condition)(nulls)
    except EvaluationError:
        return False
