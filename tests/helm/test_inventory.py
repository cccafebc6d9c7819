"""The image's bill of materials and licence notices, of the packages that the tests run with."""

import json
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from helm.image.inventory import bill_of_materials, installed, notices
from tests.tidy.sources import ROOT

PACKAGES = Path(sysconfig.get_path("purelib"))
#: By name as package URLs have it. This project's own metadata is there, too, where it is installed as editable.
VERSIONS = {canonicalize_name(each.name): each.version for each in distributions(path=[str(PACKAGES)])}


def test_the_bill_has_exactly_what_is_installed() -> None:
    document = bill_of_materials(installed(PACKAGES))
    listed = [document["metadata"]["component"], *document["components"]]
    assert {canonicalize_name(each["name"]): each["version"] for each in listed} == VERSIONS
    assert len(listed) == len(VERSIONS)
    assert {each["purl"] for each in listed} == {f"pkg:pypi/{name}@{version}" for name, version in VERSIONS.items()}
    assert {each["bom-ref"] for each in listed} == {each["purl"] for each in listed}


def test_the_bill_says_that_it_is_cyclonedx_and_what_it_is_about() -> None:
    document = bill_of_materials(installed(PACKAGES))
    assert (document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.6", 1)
    assert document["metadata"]["component"]["type"] == "application"
    assert document["metadata"]["component"]["licenses"] == [{"expression": "Apache-2.0"}]
    assert all(len(each["licenses"]) == 1 for each in document["components"])


@pytest.fixture(scope="module")
def text() -> str:
    return notices(installed(PACKAGES), "/opt/upquery/lib")


def test_notices_name_every_distribution(text: str) -> None:
    headings = {line for line in text.splitlines() if " " in line}
    for each in installed(PACKAGES):
        assert (f"{each.name} {each.version}" in headings) == (each.name != "upquery"), each.name


def test_notices_have_the_licences_of_psycopg_and_of_the_libraries_in_its_wheel(text: str) -> None:
    (summary,) = (line for line in text.splitlines() if line.startswith("Under the GNU Lesser General Public License"))
    assert "psycopg, psycopg-binary" in summary
    binary = text.partition(f"\npsycopg-binary {VERSIONS['psycopg-binary']}\n")[2].partition("=" * 100)[0]
    assert binary.startswith("Licence: LGPL-3.0-only\n")
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in binary
    bundled = [line for line in binary.splitlines() if line.startswith("Shared library ")]
    for library, terms in (("libpq-", "PostgreSQL License"), ("libssl-", "Apache-2.0"), ("libcrypto-", "Apache-2.0")):
        assert any(line.startswith(f"Shared library {library}") and line.endswith(terms) for line in bundled), library
    assert not [line for line in bundled if "another project" in line]


def test_both_files_are_the_same_each_time(tmp_path: Path) -> None:
    """Run as the image's build runs it, without anything of this project on the path."""
    packages = tmp_path / "lib" / "python3" / "site-packages"
    packages.parent.mkdir(parents=True)
    packages.symlink_to(PACKAGES)
    script = [sys.executable, "-I", "-S", str(ROOT / "helm" / "image" / "inventory.py"), str(tmp_path)]
    written = []
    for _ in range(2):
        subprocess.run(script, check=True, cwd=tmp_path)
        written.append([path.read_bytes() for path in sorted((tmp_path / "share" / "upquery").iterdir())])
    assert written[0] == written[1]
    assert json.loads(written[0][1])["components"]
