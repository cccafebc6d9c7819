"""``inventory.py PREFIX``: a software bill of materials and licence notices for a virtual environment.

Writes PREFIX/share/upquery/sbom.cdx.json (CycloneDX 1.6) and PREFIX/share/upquery/notices.txt: every installed
distribution with its version and licence, and the licence texts in its wheel. The same packages give the same files: no
time and no serial number is in them. `build.sh` runs it with the Python that builds the image, which needs no package
for it.

Not here: packages of the base image, which are Debian's and Python's (docs/kubernetes.md).
"""

import json
import re
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

PROJECT = "upquery"
_TEXTS = re.compile(r"\.dist-info/licenses/|(^|/)(licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)
_OF_SOURCES = re.compile(r"https?:|(homepage|source|code|repository)\b", re.IGNORECASE)
_CODE = frozenset({".py", ".pyc", ".pyi", ".so"})
#: Shared libraries of other projects in wheels: how their files begin, the project, its licence.
_LIBRARIES = (
    ("libpq-", "PostgreSQL", "PostgreSQL License"),
    ("libssl-", "OpenSSL", "Apache-2.0"),
    ("libcrypto-", "OpenSSL", "Apache-2.0"),
    ("libgssapi_krb5-", "MIT Kerberos", "MIT"),
    ("libkrb5", "MIT Kerberos", "MIT"),
    ("libk5crypto-", "MIT Kerberos", "MIT"),
    ("libcom_err-", "MIT Kerberos or e2fsprogs", "MIT"),
    ("libldap-", "OpenLDAP", "OLDAP-2.8"),
    ("liblber-", "OpenLDAP", "OLDAP-2.8"),
    ("libsasl2-", "Cyrus SASL", "BSD with attribution (Carnegie Mellon University)"),
    ("libkeyutils-", "keyutils", "LGPL-2.1-or-later"),
    ("libcrypt-", "libxcrypt", "LGPL-2.1-or-later"),
)
_HEAD = """\
Software in this environment, by others than the authors of Upquery: each distribution with its version, its licence as
its metadata has it, and the licence texts in its wheel.

Under the GNU Lesser General Public License (LGPL): {lgpl}.
Upquery uses them as they are published, unmodified. Each is a package of its own that may be replaced by a modified
version, in {packages}.
Its project publishes the sources of this version. The LGPL refers to the GNU General Public License, whose text is
/usr/share/common-licenses/GPL-3 on Debian.
"""


def installed(packages: Path) -> list[Distribution]:
    """The distributions in a site-packages directory, by name."""
    return sorted(distributions(path=[str(packages)]), key=lambda each: _normalized(each.name))


def bill_of_materials(found: Iterable[Distribution]) -> dict[str, Any]:
    """A CycloneDX document. Upquery is what it is about, all others are its components."""
    components = {_normalized(each.name): _component(each) for each in found}
    project = components.pop(PROJECT)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**project, "type": "application"}},
        "components": list(components.values()),
    }


def notices(found: Iterable[Distribution], packages: str) -> str:
    """The licence notices of all distributions but Upquery."""
    others = [each for each in found if _normalized(each.name) != PROJECT]
    lgpl = ", ".join(each.name for each in others if re.search(r"LGPL|Lesser", licence(each)))
    return "\n".join([_HEAD.format(lgpl=lgpl or "none", packages=packages), *map(_notice, others)])


def licence(distribution: Distribution) -> str:
    """The licence as the metadata has it: an SPDX expression, else a name, else classifiers."""
    for name in _field(distribution, "License-Expression") + _field(distribution, "License"):
        # Some have their whole text for a name.
        if name and "\n" not in name:
            return name
    classifiers = [line.split(" :: ") for line in _field(distribution, "Classifier")]
    return ", ".join(words[-1] for words in classifiers if words[0] == "License") or "not stated"


def _component(distribution: Distribution) -> dict[str, Any]:
    name, version = distribution.name, distribution.version
    purl = f"pkg:pypi/{_normalized(name)}@{quote(version, safe='')}"
    is_expression = bool(_field(distribution, "License-Expression"))
    name_of_licence = licence(distribution)
    stated = {"expression": name_of_licence} if is_expression else {"license": {"name": name_of_licence}}
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "licenses": [stated],
    }


def _notice(distribution: Distribution) -> str:
    head = f"{'=' * 100}\n{distribution.name} {distribution.version}\nLicence: {licence(distribution)}\n"
    links = _field(distribution, "Home-page") + _field(distribution, "Project-URL")
    head += "".join(f"{link}\n" for link in links if _OF_SOURCES.match(link))
    return head + _shared_libraries(distribution) + "".join(f"\n{text}\n" for text in _texts(distribution))


def _shared_libraries(distribution: Distribution) -> str:
    """One line for each shared library that the wheel brings along."""
    lines = []
    for file in sorted(distribution.files or [], key=str):
        if file.parent.name.endswith(".libs"):
            known = (f"{project}, {terms}" for start, project, terms in _LIBRARIES if file.name.startswith(start))
            lines.append(f"Shared library {file.name}: {next(known, 'of another project')}\n")
    return "".join(lines)


def _texts(distribution: Distribution) -> list[str]:
    """The licence texts in a wheel, each once."""
    files = [file for file in distribution.files or [] if _TEXTS.search(str(file)) and file.suffix not in _CODE]
    paths = [Path(str(file.locate())) for file in sorted(files, key=str)]
    read = [path.read_text(encoding="utf-8", errors="replace").strip() for path in paths if path.is_file()]
    return list(dict.fromkeys(read)) or ["(Its wheel has no licence text.)"]


def _field(distribution: Distribution, name: str) -> list[str]:
    return distribution.metadata.get_all(name) or []


def _normalized(name: str) -> str:
    """A distribution's name as package URLs have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main(prefix: Path) -> None:
    """Write both files below a virtual environment."""
    (packages,) = prefix.glob("lib/python*/site-packages")
    found = installed(packages)
    shared = prefix / "share" / "upquery"
    shared.mkdir(parents=True, exist_ok=True)
    document = json.dumps(bill_of_materials(found), indent=2, ensure_ascii=False)
    (shared / "sbom.cdx.json").write_text(f"{document}\n", encoding="utf-8")
    (shared / "notices.txt").write_text(notices(found, str(packages)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
