"""References to modules in docstrings and comments."""

import re

from tests.tidy.sources import ROOT, sources

REFERENCE = re.compile(r"`((?:api_schemas|cdc|dataflow|load|service|tests)(?:\.\w+)+)`")
#: The rest of a name within a module: a class, a function, an attribute.
WITHIN = 2


def resolves(name: str) -> bool:
    """Return whether there is such a module or folder, or one that contains the rest of the name."""
    parts = name.split(".")
    for length in range(len(parts), max(len(parts) - WITHIN, 1) - 1, -1):
        path = ROOT.joinpath(*parts[:length])
        rest = parts[length:]
        if not rest and path.is_dir():
            return True
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                text = file.read_text(encoding="utf-8")
                return all(re.search(rf"\b{part}\b", text) for part in rest)
    return False


def test_they_lead_somewhere() -> None:
    broken = [
        f"{source.path}: {name}"
        for source in sources()
        for name in REFERENCE.findall((ROOT / source.path).read_text(encoding="utf-8"))
        if not resolves(name)
    ]
    assert broken == []
