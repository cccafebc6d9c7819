"""Which URLs leave the server of another machine unverified, and which of them by choice."""

from pathlib import Path

import pytest

from service.command.diagnosis import transport_findings
from service.settings.sections import CdcSettings, UpstreamSettings
from service.settings.stack import Settings
from service.settings.transport import Transport, transport, transports

UPSTREAM = "[upstream] url"


@pytest.fixture(autouse=True)
def _defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of libpq's in the environment, and no file of authorities in the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PGSSLMODE", "PGSSLROOTCERT", "PGHOST"):
        monkeypatch.delenv(name, raising=False)


def of(url: str) -> Transport:
    return transport(UPSTREAM, url)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("postgresql://app@db.internal/app", "db.internal"),
        ("postgres://app:secret@db.internal:6432/app", "db.internal"),
        ("postgresql://app@10.0.0.7/app", "10.0.0.7"),
        ("postgresql://app@[2001:db8::7]:5432/app", "2001:db8::7"),
        ("postgresql://app@localhost,db.internal:5433/app", "db.internal"),
        ("postgresql:///app?host=db.internal", "db.internal"),
        ("postgresql:///app?hostaddr=10.0.0.7", "10.0.0.7"),
        ("postgresql://app@db.internal/app?hostaddr=127.0.0.1", "db.internal"),
        ("postgresql://app@db.internal/app?sslrootcert=/ca.pem", "db.internal"),
        ("postgresql://app@db.internal/app?sslmode=", "db.internal"),
        ("postgresql+psycopg://app@db.internal/app", "db.internal"),
        ("postgresql+psycopg://app@/app?host=localhost:5432&host=db.internal:5433", "db.internal"),
        ("mysql://app@db.internal/app", "db.internal"),
        ("mysql+pymysql://app@db.internal/app", "db.internal"),
        ("mariadb://app:secret@db.internal:3307/app", "db.internal"),
        ("mariadb://app@db.internal/app?ssl-cert=c.pem&ssl-key=k.pem", "db.internal"),
    ],
)
def test_undecided(url: str, host: str) -> None:
    found = of(url)
    assert (found.host, found.undecided) == (host, True)
    assert not found.verified
    assert "secret" not in str(found) + found.remedy


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app@localhost/app",
        "postgresql://app@127.0.0.1:5432/app",
        "postgresql://app@127.8.0.1/app",
        "postgresql://app@[::1]/app",
        "postgresql://app@LOCALHOST./app",
        "postgresql:///app",
        "postgresql://%2Fvar%2Frun%2Fpostgresql/app",
        "postgresql:///app?host=/var/run/postgresql",
        "postgresql:///app?hostaddr=127.0.0.1",
        "postgresql+psycopg://app@/app?host=localhost:5432&host=127.0.0.1:5433",
        "mysql://app@localhost/app",
        "mariadb+pymysql://app@db.internal/app?unix_socket=/run/mysqld/mysqld.sock",
        "mariadb://app@127.0.0.1:3306/app",
        "mariadb://app@[::1]/app",
        "mariadb://app@db.internal/app?socket=/run/mysqld/mysqld.sock",
    ],
)
def test_what_stays_on_the_machine(url: str) -> None:
    assert (of(url).host, of(url).undecided) == ("", False)


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "require"])
def test_an_sslmode_is_a_choice(mode: str) -> None:
    found = of(f"postgresql://app@db.internal/app?sslmode={mode}")
    assert (found.mode, found.chosen, found.verified, found.undecided) == (mode, True, False, False)


@pytest.mark.parametrize("mode", ["disabled", "preferred", "required"])
def test_an_ssl_mode_is_a_choice(mode: str) -> None:
    for name in ("ssl-mode", "ssl_mode"):
        found = of(f"mariadb://app@db.internal/app?{name}={mode}")
        assert (found.mode, found.chosen, found.verified, found.undecided) == (mode, True, False, False)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app@db.internal/app?sslmode=verify-full&sslrootcert=/ca.pem",
        "postgresql://app@db.internal/app?sslmode=verify-ca",
        "postgresql://app@db.internal/app?sslrootcert=system",
        "postgresql://app@db.internal/app?gssencmode=require",
        "postgresql+psycopg://app@db.internal/app?sslmode=verify-full",
        "mysql://app@db.internal/app?ssl-ca=/ca.pem",
        "mysql+pymysql://app@db.internal/app?ssl_ca=/ca.pem",
        "mysql://app@db.internal/app?ssl-mode=VERIFY-IDENTITY",
        "mysql://app@db.internal/app?ssl_mode=verify-ca",
    ],
)
def test_verified(url: str) -> None:
    assert (of(url).verified, of(url).undecided) == (True, False)


def test_require_verifies_if_there_is_a_file_of_authorities(tmp_path: Path) -> None:
    """libpq does so for compatibility with older versions (PostgreSQL's manual, "SSL Support", sslmode)."""
    authorities = tmp_path / "ca.pem"
    url = f"postgresql://app@db.internal/app?sslmode=require&sslrootcert={authorities}"
    assert not of(url).verified
    authorities.touch()
    assert of(url).verified
    assert not of("postgresql://app@db.internal/app?sslmode=require").verified
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "root.crt").touch()
    assert of("postgresql://app@db.internal/app?ssl=true").verified


def test_the_environment_of_libpq_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.internal")
    assert of("postgresql:///app").undecided
    assert not of("postgresql://localhost/app").undecided
    monkeypatch.setenv("PGSSLMODE", "prefer")
    assert not of("postgresql:///app").undecided
    assert of("mysql://app@db.internal/app").undecided


def test_what_cannot_be_read_is_left_to_whoever_connects() -> None:
    assert of("postgresql://app@[db/app").host == ""


def test_the_remedy_has_the_parameters_and_where_they_belong() -> None:
    upstream = UpstreamSettings(url="postgresql://app@db.internal/app?sslmode=verify-full")
    lookups, stream = transports(upstream, CdcSettings(url="postgresql://repl@primary.internal/app"))
    assert (lookups.undecided, stream.undecided, stream.host) == (False, True, "primary.internal")
    assert "sslmode=verify-full&sslrootcert=FILE" in stream.remedy
    assert stream.remedy.endswith("in [cdc] url.")
    assert "ssl-ca=FILE" in of("mysql://app@db/app").remedy
    assert [each.setting for each in transports(upstream, CdcSettings())] == [UPSTREAM]


def findings(url: str, encryption: str, cdc: str | None = None) -> list[str]:
    """Return the findings of ``upquery doctor``."""
    found = transport_findings(Settings(upstream=UpstreamSettings(url=url), cdc=CdcSettings(url=cdc)), encryption)
    assert all((finding.code, finding.fatal) == ("tls", False) and finding.fix for finding in found)
    return [finding.reason for finding in found]


def test_doctor_states_what_is_chosen_too() -> None:
    (plain,) = findings("postgresql://app@db.internal/app?sslmode=disable", "")
    assert plain.startswith("The connection of [upstream] url to db.internal is not encrypted (sslmode is disable): ")
    (encrypted,) = findings("mariadb://app@db.internal/app", "TLS")
    assert "does not verify the server (ssl-mode is preferred by default)" in encrypted


def test_doctor_says_nothing_of_what_is_verified_or_stays_on_the_machine() -> None:
    assert findings("postgresql://app@db.internal/app?sslmode=verify-full", "TLS") == []
    assert findings("postgresql://app@db.internal/app", "Kerberos") == []
    assert findings("mariadb://app@localhost/app", "") == []


def test_doctor_looks_at_the_change_streams_url_too() -> None:
    (stream,) = findings("postgresql://app@localhost/app", "", "postgresql://app@db.internal/app?sslmode=require")
    assert "The connection of [cdc] url to db.internal does not verify the server (sslmode is require)" in stream
