"""Random changes of the corpus's tables: one transaction a step."""

from random import Random

from tests.fuzz.dialect import KEYS, NOT_NULL, Dialect


def transaction(rng: Random, dialect: Dialect) -> str:
    """The statements of one transaction."""
    if rng.random() < 0.02:
        return f"TRUNCATE {rng.choice(list(dialect.tables))}"
    return ";\n".join(_statement(rng, dialect) for _ in range(rng.choice((1, 1, 2, 3, 5))))


def _statement(rng: Random, dialect: Dialect) -> str:
    table = rng.choice(list(dialect.tables))
    columns = dialect.tables[table]
    choice = rng.random()
    if choice < 0.5:
        return _insert(table, rng, dialect)
    column, kind = rng.choice(list(columns.items()))
    where = f"{column} = {dialect.constant(kind, rng)}"
    if choice < 0.62:
        return f"DELETE FROM {table} WHERE {where}"
    target = rng.choice([c for c in columns if c not in (*KEYS.get(table, ()), *NOT_NULL)])
    return f"UPDATE {table} SET {target} = {dialect.stored(columns[target], rng)} WHERE {where}"


def _insert(table: str, rng: Random, dialect: Dialect) -> str:
    keys = KEYS.get(table, ())
    values = [
        dialect.constant(kind, rng) if column in (*keys, *NOT_NULL) else dialect.stored(kind, rng)
        for column, kind in dialect.tables[table].items()
    ]
    form = rng.choice(dialect.upserts) if keys else "INSERT INTO {table} ({columns}) VALUES ({values})"
    return form.format(
        table=table,
        columns=", ".join(dialect.tables[table]),
        values=", ".join(values),
        keys=", ".join(keys),
        changes=", ".join(dialect.assignment.format(c=c) for c in dialect.tables[table] if c not in keys),
    )
