"""URLs of MariaDB and MySQL."""

import pytest

from service.upstream.mysql.address import Address


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
        "user": "app", "password": b"secret", "database": "shop", "host": "db", "port": 3306,
    }  # fmt: skip
    assert Address.parse("mysql://app@db/shop?socket=/run/s").options()["unix_socket"] == "/run/s"
    assert Address.parse("mysql://app@db/shop?ssl-mode=disabled").options()["ssl_disabled"] is True


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://app:secret@db", "lacks something"),
        ("mysql://:secret@db/shop", "lacks something"),
        ("postgres://app:secret@db/shop", "lacks something"),
        ("mysql://app:secret@db:port/shop", "cannot be read"),
        ("mysql://app:secret@db/shop?sslca=x", "the parameter sslca"),
        ("mysql://app:secret@db/shop?ssl-mode=maybe", "ssl-mode is one of"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        Address.parse(url)
    assert "secret" not in str(caught.value)
