"""A tiny TPC-H database and its changes: rows of our own making, in which each of the 22 queries finds some.

One seed is one database and one history. Beside the specification's refresh functions, which insert and delete orders
with their items, everything that a query reads is updated: prices, dates, names, who supplies and who buys.
"""

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random

from tests.sql.corpus_file import CorpusFile, Step, read_corpus_file

PARTS, SUPPLIERS, CUSTOMERS, ORDERS = 30, 16, 24, 90
#: Rows of one INSERT.
_ROWS = 100
#: Beginnings of the times that the queries are about, and how long each is.
_TIMES = (date(1993, 7, 1), date(1993, 10, 1), date(1994, 1, 1), date(1995, 2, 1), date(1995, 9, 1), date(1996, 1, 1))
_DAYS = 90

_REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
#: Name, and number of the region.
_NATIONS = (
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("CHINA", 2),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("SAUDI ARABIA", 4),
    ("KENYA", 0),
)
_COUNTRY_CODES = ("13", "31", "23", "29", "30", "18", "17", "11")
_COLOURS = ("forest green", "forest", "green almond", "blue", "red green")
_TYPES = (
    "ECONOMY ANODIZED STEEL",
    "ECONOMY ANODIZED STEEL",
    "PROMO BURNISHED BRASS",
    "SMALL PLATED BRASS",
    "MEDIUM POLISHED TIN",
)
_BRANDS = ("Brand#12", "Brand#23", "Brand#23", "Brand#34", "Brand#45")
_CONTAINERS = ("SM BOX", "MED BOX", "MED BOX", "LG PKG", "JUMBO JAR")
_SIZES = (3, 5, 9, 15, 15, 49)
_SEGMENTS = ("BUILDING", "BUILDING", "MACHINERY")
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW")
_MODES = ("AIR", "AIR REG", "MAIL", "SHIP", "TRUCK")
_INSTRUCTIONS = ("DELIVER IN PERSON", "DELIVER IN PERSON", "NONE")
_COMMENTS = ("carefully", "special packages requests", "special deposits", "Customer slow Complaints", "requests")

Value = int | str | date


def _literal(value: Value) -> str:
    return str(value) if isinstance(value, int) else f"'{value}'"


def _inserts(table: str, rows: list[tuple[Value, ...]]) -> Iterator[str]:
    for start in range(0, len(rows), _ROWS):
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows[start : start + _ROWS])
        yield f"INSERT INTO {table} VALUES {values}"


class Warehouse:
    """A seeded database and history. *State*: the last number given to an order, and to a customer."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._orders = ORDERS
        self._customers = CUSTOMERS
        self._changes: tuple[Callable[[], list[str]], ...] = (
            self._new_order,
            self._new_order,
            self._order_deleted,
            self._item_changed,
            self._item_changed,
            self._order_changed,
            self._supply_changed,
            self._part_changed,
            self._supplier_changed,
            self._customer_changed,
            self._nation_changed,
        )

    def first_rows(self) -> Iterator[str]:
        """Statements that fill the tables."""
        yield from _inserts("region", [(i, name, "") for i, name in enumerate(_REGIONS)])
        yield from _inserts("nation", [(i, name, region, "") for i, (name, region) in enumerate(_NATIONS)])
        yield from _inserts("part", [self._part(i) for i in range(1, PARTS + 1)])
        yield from _inserts("supplier", [self._supplier(i) for i in range(1, SUPPLIERS + 1)])
        supplies = [
            (part, 1 + (part + i * 5) % SUPPLIERS, self._rng.randint(1, 200), self._money(1, 1000), "")
            for part in range(1, PARTS + 1)
            for i in range(3)
        ]
        yield from _inserts("partsupp", supplies)
        yield from _inserts("customer", [self._customer(i) for i in range(1, CUSTOMERS + 1)])
        yield from _inserts("orders", [self._order(i) for i in range(1, ORDERS + 1)])
        yield from _inserts("lineitem", [item for i in range(1, ORDERS + 1) for item in self._items(i)])

    def transactions(self, number: int) -> Iterator[str]:
        """So many transactions; the first ones make every kind of change."""
        for i in range(number):
            change = self._changes[i] if i < len(self._changes) else self._rng.choice(self._changes)
            others = [self._rng.choice(self._changes)() for _ in range(self._rng.randint(0, 2))]
            yield ";\n".join(statement for statements in (change(), *others) for statement in statements)

    # Rows

    def _money(self, least: int, most: int) -> str:
        return f"{self._rng.randint(least * 100, most * 100) / 100:.2f}"

    def _hundredth(self, most: int) -> str:
        return f"0.{self._rng.randint(0, most):02}"

    def _day(self) -> date:
        return self._rng.choice(_TIMES) + timedelta(self._rng.randrange(_DAYS))

    def _part(self, number: int) -> tuple[Value, ...]:
        pick = self._rng.choice
        name, brand, kind, container = pick(_COLOURS), pick(_BRANDS), pick(_TYPES), pick(_CONTAINERS)
        return (number, name, "Maker", brand, kind, pick(_SIZES), container, self._money(900, 1000), "")

    def _supplier(self, number: int) -> tuple[Value, ...]:
        nation, balance = (number - 1) % len(_NATIONS), self._money(-900, 900)
        return (number, f"Supplier {number}", f"street {number}", nation, "", balance, self._rng.choice(_COMMENTS))

    def _customer(self, number: int) -> tuple[Value, ...]:
        pick = self._rng.choice
        nation = self._rng.randrange(len(_NATIONS))
        balance = self._money(-500, 900)
        return (
            number,
            f"Customer {number}",
            "street",
            nation,
            self._phone(),
            balance,
            pick(_SEGMENTS),
            pick(_COMMENTS),
        )

    def _phone(self) -> str:
        return f"{self._rng.choice(_COUNTRY_CODES)}-{self._rng.randint(100, 999)}"

    def _buyer(self) -> int:
        """A customer; a third of them buy nothing at first."""
        number = self._rng.randint(1, self._customers)
        return number if number % 3 else number - 1

    def _order(self, number: int) -> tuple[Value, ...]:
        pick = self._rng.choice
        total, priority = self._money(1000, 9000), pick(_PRIORITIES)
        return (number, self._buyer(), pick("FFO"), total, self._day(), priority, "Clerk", 0, pick(_COMMENTS))

    def _items(self, order: int) -> list[tuple[Value, ...]]:
        """One to seven items, of large quantities now and then."""
        large = self._rng.random() < 0.1
        return [self._item(order, line, large) for line in range(1, 8 if large else self._rng.randint(2, 8))]

    def _item(self, order: int, line: int, large: bool) -> tuple[Value, ...]:
        pick, draw = self._rng.choice, self._rng.randint
        part, supplier = self._supplied()
        shipped = self._day()
        commit, receipt = shipped + timedelta(draw(-5, 40)), shipped + timedelta(draw(1, 30))
        quantity = f"{draw(44, 50) if large else draw(1, 30)}.00"
        measures = (quantity, self._money(900, 9000), self._hundredth(10), self._hundredth(8))
        kinds = (pick("RAN"), pick("OF"), shipped, commit, receipt, pick(_INSTRUCTIONS), pick(_MODES))
        return (order, part, supplier, line, *measures, *kinds, "")

    def _supplied(self) -> tuple[int, int]:
        part = self._rng.randint(1, PARTS)
        return part, 1 + (part + self._rng.randrange(3) * 5) % SUPPLIERS

    # Changes

    def _set(self, table: str, key: str, number: int, **columns: list[Value]) -> list[str]:
        """An UPDATE of some of the columns, to one of their values each."""
        chosen = self._rng.sample(sorted(columns), self._rng.randint(1, min(2, len(columns))))
        values = ", ".join(f"{column} = {_literal(self._rng.choice(columns[column]))}" for column in chosen)
        return [f"UPDATE {table} SET {values} WHERE {key} = {number}"]

    def _new_order(self) -> list[str]:
        self._orders += 1
        number = self._orders
        return [*_inserts("orders", [self._order(number)]), *_inserts("lineitem", self._items(number))]

    def _some_order(self) -> int:
        return self._rng.randint(1, self._orders)

    def _order_deleted(self) -> list[str]:
        number = self._some_order()
        return [f"DELETE FROM lineitem WHERE l_orderkey = {number}", f"DELETE FROM orders WHERE o_orderkey = {number}"]

    def _order_changed(self) -> list[str]:
        return self._set(
            "orders",
            "o_orderkey",
            self._some_order(),
            o_custkey=[self._rng.randint(1, self._customers)],
            o_orderdate=[self._day()],
            o_totalprice=[self._money(1000, 9000)],
            o_orderpriority=[*_PRIORITIES],
            o_orderstatus=["F", "O"],
            o_comment=[*_COMMENTS],
        )

    def _item_changed(self) -> list[str]:
        part, supplier = self._supplied()
        number = self._some_order()
        if self._rng.random() < 0.3:
            moved = f"UPDATE lineitem SET l_partkey = {part}, l_suppkey = {supplier} WHERE l_orderkey = {number}"
            return [f"{moved} AND l_linenumber = 1"]
        return self._set(
            "lineitem",
            "l_orderkey",
            number,
            l_quantity=[f"{self._rng.randint(1, 50)}.00"],
            l_extendedprice=[self._money(900, 9000)],
            l_discount=[self._hundredth(10)],
            l_shipdate=[self._day()],
            l_commitdate=[self._day()],
            l_receiptdate=[self._day()],
            l_returnflag=["R", "A", "N"],
            l_shipmode=[*_MODES],
        )

    def _supply_changed(self) -> list[str]:
        part, supplier = self._supplied()
        if self._rng.random() < 0.2:
            return [f"DELETE FROM partsupp WHERE ps_partkey = {part} AND ps_suppkey = {supplier}"]
        cost, available = [self._money(1, 1000)], [self._rng.randint(1, 200)]
        return self._set("partsupp", "ps_partkey", part, ps_supplycost=[*cost], ps_availqty=[*available])

    def _part_changed(self) -> list[str]:
        return self._set(
            "part",
            "p_partkey",
            self._rng.randint(1, PARTS),
            p_name=[*_COLOURS],
            p_brand=[*_BRANDS],
            p_type=[*_TYPES],
            p_size=[*_SIZES],
            p_container=[*_CONTAINERS],
        )

    def _supplier_changed(self) -> list[str]:
        number = self._rng.randint(1, SUPPLIERS)
        own = (number - 1) % len(_NATIONS)
        nations: list[Value] = [own, own, self._rng.randrange(len(_NATIONS))]
        balance: list[Value] = [self._money(-900, 900)]
        return self._set(
            "supplier", "s_suppkey", number, s_nationkey=nations, s_acctbal=balance, s_comment=[*_COMMENTS]
        )

    def _customer_changed(self) -> list[str]:
        number = self._rng.randint(1, self._customers)
        if self._rng.random() < 0.2:
            self._customers += 1
            return [
                f"DELETE FROM customer WHERE c_custkey = {number}",
                *_inserts("customer", [self._customer(self._customers)]),
            ]
        return self._set(
            "customer",
            "c_custkey",
            number,
            c_nationkey=[*range(len(_NATIONS))],
            c_phone=[self._phone()],
            c_acctbal=[self._money(-500, 900)],
            c_mktsegment=[*_SEGMENTS],
        )

    def _nation_changed(self) -> list[str]:
        number = self._rng.randrange(len(_NATIONS))
        name, region = _NATIONS[number]
        names: list[Value] = [name, name, self._rng.choice(_NATIONS)[0]]
        regions: list[Value] = [region, region, self._rng.randrange(len(_REGIONS))]
        return self._set("nation", "n_nationkey", number, n_name=names, n_regionkey=regions)


def tpch(seed: int, transactions: int, reads: str = "reads") -> CorpusFile:
    """The queries of a file, a database, and a history of so many transactions."""
    file = read_corpus_file(Path(__file__).parent / f"{reads}.test")
    warehouse = Warehouse(seed)
    tables = ("region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem")
    first = [*(f"DELETE FROM {table}" for table in tables), *warehouse.first_rows()]
    file.setup.append(Step(";\n".join(first), 0))
    file.steps += [Step(sql, number) for number, sql in enumerate(warehouse.transactions(transactions), 1)]
    return file


def schema() -> bytes:
    """Tables, in SQL of both databases."""
    return (Path(__file__).parent / "schema.sql").read_bytes()
