"""Files that programs write are as the programs would write them now."""

import json

import pytest

from helm import readme, settings_schema
from tests.helm.charts import chart
from tests.helm.goldens import GOLDENS, RENDERED, golden
from tests.tidy.sources import ROOT


@pytest.mark.parametrize("name", GOLDENS)
def test_rendered_objects_are_those_of_before(name: str) -> None:
    before = (RENDERED / f"{name}.yaml").read_text(encoding="utf-8")
    assert golden(name) == before, "if that is meant: python -m tests.helm.goldens"


def test_no_golden_is_left_over() -> None:
    assert {path.stem for path in RENDERED.glob("*.yaml")} == set(GOLDENS)


def test_the_readme_has_the_values_as_they_are() -> None:
    written = readme.README.read_text(encoding="utf-8")
    assert written == readme.current(), "python -m helm.readme"


def test_every_value_is_described() -> None:
    text = (readme.CHART / "values.yaml").read_text(encoding="utf-8")

    def undescribed(found: list[readme.Described]) -> list[str]:
        return [each.path for each in found if not each.description] + [
            path for each in found for path in undescribed(each.inside) if each.path not in ("settings", "resources")
        ]

    found = readme.described(text)
    assert undescribed(found) == []
    assert {each.path for each in found} == set(chart().values)


def test_the_schema_has_the_settings_of_the_service() -> None:
    written = settings_schema.SCHEMA.read_text(encoding="utf-8")
    assert written == settings_schema.renewed(written), "python -m helm.settings_schema"


def test_the_schema_knows_each_value() -> None:
    schema = json.loads(settings_schema.SCHEMA.read_text(encoding="utf-8"))
    assert set(schema["properties"]) == {*chart().values, "global"}


def test_versions_are_the_projects() -> None:
    """The chart installs the image of this version of the service."""
    version = chart().metadata["appVersion"]
    assert f'version = "{version}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'image.version="{version}"' in (ROOT / "Dockerfile").read_text(encoding="utf-8")
