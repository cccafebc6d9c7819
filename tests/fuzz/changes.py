"""Random changes of the corpus's tables: one transaction a step."""

from random import Random

from tests.fuzz.schema import TABLES, VALUES, stored

#: Columns that must not be NULL or repeat, by table: a row with a key that is there is changed instead.
_KEYS = {"users": ("id",), "stories": ("id",), "votes": ("story_id", "user_id"), "comments": ("id",)}


def transaction(rng: Random) -> str:
    """The statements of one transaction."""
    if rng.random() < 0.02:
        return f"TRUNCATE {rng.choice(list(TABLES))}"
    return ";\n".join(_statement(rng) for _ in range(rng.choice((1, 1, 2, 3, 5))))


def _statement(rng: Random) -> str:
    table = rng.choice(list(TABLES))
    choice = rng.random()
    if choice < 0.5:
        return _insert(table, rng)
    column, kind = rng.choice(list(TABLES[table].items()))
    where = f"{column} = '{rng.choice(VALUES[kind])}'"
    if choice < 0.62:
        return f"DELETE FROM {table} WHERE {where}"
    changed = [c for c in TABLES[table] if c not in _KEYS.get(table, ()) and c != "karma"]
    target = rng.choice(changed)
    return f"UPDATE {table} SET {target} = {stored(TABLES[table][target], rng)} WHERE {where}"


def _insert(table: str, rng: Random) -> str:
    keys = _KEYS.get(table, ())
    values = []
    for column, kind in TABLES[table].items():
        needed = column in keys or column == "karma"
        values.append(f"'{rng.choice(VALUES[kind])}'" if needed else stored(kind, rng))
    sql = f"INSERT INTO {table} ({', '.join(TABLES[table])}) VALUES ({', '.join(values)})"
    if not keys:
        return sql
    others = [c for c in TABLES[table] if c not in keys]
    return f"{sql} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in others)}"
