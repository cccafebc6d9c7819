"""``python -m helm.readme``: writes the chart's README.md from the comments in its values.yaml.

The comment directly above a key is its description. A key whose value has described keys is a section; keys without a
description, and values in one line, are parts of values that users replace as a whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

CHART = Path(__file__).parent / "upquery"
README = CHART / "README.md"
HEAD = """# upquery

{description}.

`helm install upquery helm/upquery --set upstream.secret.name=my-database`, where the Secret `my-database` has the
database's URL under the key `url`, installs a service with a token for readers and one for administrators.
[docs/kubernetes.md](../../docs/kubernetes.md) describes it by topic.

This file is written by `python -m helm.readme` from the comments in `values.yaml`. Chart {version}, Kubernetes
{kubernetes}.

## Values
"""


@dataclass(slots=True)
class Described:
    """A key with its description. `default` is its YAML in one line; None for a section."""

    path: str
    description: str
    default: str | None
    inside: "list[Described]" = field(default_factory=list)


def described(text: str) -> list[Described]:
    """Return the described keys of a values file, in order."""
    node = yaml.compose(text)
    assert isinstance(node, yaml.MappingNode)
    return list(_of_mapping(node, text.splitlines(), ""))


def _of_mapping(node: yaml.Node, lines: list[str], prefix: str) -> Iterator[Described]:
    for key, value in node.value:
        path = prefix + key.value
        inside = list(_of_mapping(value, lines, path + ".")) if _is_block(value) else []
        about = _comment_above(lines, key.start_mark.line)
        if about or inside:
            yield Described(path, about, None if inside else _in_one_line(value), inside)


def _is_block(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and not node.flow_style


def _comment_above(lines: list[str], at: int) -> str:
    found: list[str] = []
    while at > 0 and lines[at - 1].lstrip().startswith("#"):
        at -= 1
        found.insert(0, lines[at].lstrip().removeprefix("#").strip())
    return " ".join(found)


def _in_one_line(node: yaml.Node) -> str:
    value = yaml.safe_load(yaml.serialize(node))
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")


def readme(values: str, chart: dict[str, str]) -> str:
    """Return the README of a chart, as Markdown."""
    found = described(values)
    kubernetes = chart["kubeVersion"].removesuffix("-0")
    head = HEAD.format(description=chart["description"], version=chart["version"], kubernetes=kubernetes)
    parts = [head, _table([value for value in found if not value.inside])]
    sections = (section for section in found if section.inside)
    parts += (f"### {s.path}\n\n{s.description}\n\n{_table(list(_leaves(s)))}" for s in sections)
    return "\n".join(parts)


def _leaves(section: Described) -> Iterator[Described]:
    for value in section.inside:
        yield value
        yield from _leaves(value)


def _table(rows: list[Described]) -> str:
    lines = ["| value | default | |", "|---|---|---|"]
    for row in rows:
        default = "" if row.default is None else f"`{row.default}`"
        cells = (f"`{row.path}`", default, row.description)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def current() -> str:
    """Return the README of this chart."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    return readme((CHART / "values.yaml").read_text(encoding="utf-8"), chart)


if __name__ == "__main__":
    README.write_text(current(), encoding="utf-8")
