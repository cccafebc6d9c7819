"""Plans as text. A file has a ``-- view: name`` line, its SQL and, in a comment below, the plan, for each view.

Regenerate with ``python -m tests.plans.test_plans``, and read the difference.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from dataflow.engine.explain import explain_dot, explain_json, explain_text
from dataflow.sql import plan_view
from service.demo.views import VIEWS
from tests.plans.news_site import CATALOG

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.sql"))
_CASE = re.compile(r"^-- view: (\w+)\n(.*?);\n(?:/\*\n(.*?)\*/\n)?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Case:
    """A view, and the plan that the file has for it."""

    name: str
    sql: str
    plan: str

    def actual(self) -> str:
        """The plan as it is now."""
        return explain_text(plan_view(self.name, self.sql, CATALOG), CATALOG)


def cases(file: Path) -> list[Case]:
    text = file.read_text(encoding="utf-8")
    found = [Case(*(part or "" for part in match.groups())) for match in _CASE.finditer(text)]
    assert len(found) == text.count("-- view:"), f"{file.name} has a view without a semicolon"
    return found


def rewritten(file: Path) -> str:
    """The file with every plan as it is now."""
    head = file.read_text(encoding="utf-8").partition("-- view:")[0]
    return head + "\n".join(f"-- view: {c.name}\n{c.sql};\n/*\n{c.actual()}*/\n" for c in cases(file))


ALL = [pytest.param(case, id=f"{file.stem}-{case.name}") for file in FILES for case in cases(file)]


@pytest.mark.parametrize("case", ALL)
def test_plan(case: Case) -> None:
    assert case.actual() == case.plan


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "SELECT u.name, s.title FROM users u JOIN stories s ON u.name = s.author AND s.score > 3 WHERE s.id = :id",
            "SELECT a.name, b.title FROM stories b, users a WHERE 3 < b.score AND b.author = a.name AND b.id = :id",
        ),
        (
            "SELECT s.id, count(*) FROM stories s JOIN votes v ON v.story_id = s.id LEFT JOIN comments c"
            " ON c.story_id = s.id WHERE s.id = :id GROUP BY s.id",
            "SELECT s.id, count(*) FROM votes v LEFT JOIN comments c ON c.story_id = v.story_id"
            " JOIN stories s ON s.id = v.story_id WHERE s.id = :id GROUP BY s.id",
        ),
    ],
)
def test_a_join_is_one_plan_however_it_is_written(one: str, other: str) -> None:
    """So that views share it."""
    assert plan_view("one", one, CATALOG).relation == plan_view("one", other, CATALOG).relation


@pytest.mark.parametrize("case", ALL)
def test_other_forms_say_the_same(case: Case) -> None:
    view = plan_view(case.name, case.sql, CATALOG)
    as_json = explain_json(view, CATALOG)
    for lookup in as_json["lookups"]:
        assert lookup["sql"] in case.plan
    dot = explain_dot(view, CATALOG)
    assert dot.startswith("digraph")
    assert dot.count("->") == count_nodes(as_json["plan"])


def count_nodes(plan: dict[str, object]) -> int:
    inputs = plan["inputs"]
    assert isinstance(inputs, list)
    return 1 + sum(count_nodes(below) for below in inputs)


def test_equal_parts_of_different_views_are_one_node() -> None:
    counts = "LEFT JOIN votes v ON v.story_id = s.id"
    one = plan_view(
        "one", f"SELECT s.id, COUNT(v.user_id) FROM stories s {counts} WHERE s.id = :i GROUP BY s.id", CATALOG
    )
    two = plan_view(
        "two", "SELECT COUNT(*), s.title FROM stories s JOIN votes w ON s.id = w.story_id GROUP BY s.id", CATALOG
    )
    assert one.relation.inputs[1].relation in [i.relation for i in two.relation.inputs]  # type: ignore[union-attr]


def test_the_demo_s_views_are_among_them() -> None:
    (file,) = (f for f in FILES if f.stem == "demo")
    assert [(c.name, c.sql) for c in cases(file)] == [(v.name, v.sql.strip()) for v in VIEWS]


def test_spelling_makes_no_difference() -> None:
    one = plan_view("v", "SELECT id, title FROM stories WHERE score > 1 AND author = 'x' AND id = :i", CATALOG)
    two = plan_view("v", "SELECT title, id FROM stories s WHERE s.author = 'x' AND (:i = id AND 1 < s.score)", CATALOG)
    assert one.relation == two.relation


if __name__ == "__main__":
    for path in FILES:
        path.write_text(rewritten(path), encoding="utf-8")
