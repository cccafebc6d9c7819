"""URLs of MariaDB and MySQL."""

import os
import shutil
import ssl
from pathlib import Path

import pytest

from cdc.mysql.connection import open_connection
from service.engine.databases.mysql.address import Address

AUTHORITY = Path(__file__).parents[4] / "fixtures" / "authority.pem"


def test_everything_in_a_url() -> None:
    address = Address.parse("mariadb://us%40er:p%3Ass@db.example:3307/my%20shop?ssl_ca=/ca.pem&ssl-cert=c&ssl-key=k")
    assert (address.host, address.port, address.user, address.password) == ("db.example", 3307, "us@er", "p:ss")
    assert (address.database, address.ssl_mode, address.ssl_ca) == ("my shop", "verify-identity", "/ca.pem")
    assert (address.ssl_cert, address.ssl_key) == ("c", "k")
    assert "p:ss" not in repr(address)
    assert address.without_password("no p:ss here") == "no *** here"


def test_defaults() -> None:
    address = Address.parse("mysql://app@db/shop", "secret")
    assert (address.port, address.password, address.ssl_mode) == (3306, "secret", "preferred")
    assert address.options() == {
        "user": "app",
        "password": b"secret",
        "database": "shop",
        "host": "db",
        "port": 3306,
    }
    assert Address.parse("mysql://app@db/shop?socket=/run/s").options()["unix_socket"] == "/run/s"
    assert Address.parse("mysql://app@db/shop?ssl-mode=disabled").options()["ssl_disabled"] is True


@pytest.mark.parametrize("scheme", ["mysql", "MariaDB", "mysql+pymysql", "mariadb+pymysql"])
def test_urls_of_sqlalchemy(scheme: str) -> None:
    address = Address.parse(f"{scheme}://app:se@cr%2Fet@[2001:db8::7]:3307/shop?charset=utf8mb4&unix_socket=/run/s")
    assert (address.host, address.port, address.user, address.password) == ("2001:db8::7", 3307, "app", "se@cr/et")
    assert (address.database, address.socket) == ("shop", "/run/s")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://app:secret@db", "is incomplete"),
        ("mysql://:secret@db/shop", "is incomplete"),
        ("postgres://app:secret@db/shop", "is incomplete"),
        ("mysql://app:secret@db:port/shop", "cannot be read"),
        ("mysql://app:secret@db:70000/shop", "is incomplete"),
        ("app:secret@db/shop", "cannot be read"),
        ("mysql://app:secret@db/shop?sslca=x", "the parameter sslca"),
        ("mysql://app:secret@db/shop?ssl-mode=maybe", "ssl-mode must be one of"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        Address.parse(url)
    assert "secret" not in str(caught.value)


def test_one_context_does_for_all_connections_until_a_file_is_renewed(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    shutil.copy(AUTHORITY, authority)
    address = Address.parse(f"mysql://app@db/shop?ssl-ca={authority}")
    first = address.options()["ssl"]
    assert address.options()["ssl"] is first
    assert first.check_hostname
    os.utime(authority, (1, 1))
    assert address.options()["ssl"] is not first
    with pytest.raises(OSError, match=r"none\.pem"):
        Address.parse("mysql://app@db/shop?ssl-ca=/none.pem").options()


def test_a_connection_that_need_not_be_encrypted_prepares_nothing() -> None:
    one, two = (open_connection(host="db", user="app", defer_connect=True) for _ in range(2))
    assert one.ctx is two.ctx
    assert one.ctx.verify_mode is ssl.CERT_NONE
