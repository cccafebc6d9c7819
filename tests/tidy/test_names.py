"""Names: one class name has one meaning over the packages that make a running service."""

import ast
from collections import defaultdict

from tests.tidy.sources import sources_of


def test_no_class_name_is_used_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for source in sources_of("cdc", "dataflow", "service"):
        for node in ast.walk(source.tree()):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(source.path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
