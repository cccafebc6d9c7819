"""``python -m tests.helm.goldens``: writes anew what the chart renders for some entries of the matrix (`rendered/`).

The files are for the eyes of reviewers: a change of a template is seen as what it changes in a cluster.
"""

import re
from pathlib import Path

import yaml

from tests.helm.charts import render
from tests.helm.matrix import MATRIX

RENDERED = Path(__file__).parent / "rendered"
GOLDENS = ("secret", "everything", "mysql-connector", "sharded", "spark-application", "warm")
#: Tokens are random, and so are their hashes.
_RANDOM = re.compile(r'(?<=-token: )upq_\w+|(?<=sha256 = ")[0-9a-f]{64}')


class _Readable(yaml.SafeDumper):
    """Texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def golden(name: str) -> str:
    """Render the entry, without its random parts."""
    documents = yaml.dump_all(render(MATRIX[name]).objects, Dumper=_Readable, sort_keys=False, width=120)
    return _RANDOM.sub("(random)", documents)


if __name__ == "__main__":
    RENDERED.mkdir(exist_ok=True)
    for each in GOLDENS:
        (RENDERED / f"{each}.yaml").write_text(golden(each), encoding="utf-8")
