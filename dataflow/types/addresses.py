"""``inet4`` and ``inet6`` of MariaDB, as the server prints them."""

from ipaddress import AddressValueError, IPv4Address, IPv6Address

from dataflow.memo import remembered
from dataflow.types.rules import Rules, TypeRules, quoted

INET4 = "inet4"
INET6 = "inet6"


@remembered(entries=10_000, characters=50)
def _normal_inet6(text: str) -> str:
    return str(IPv6Address(text))


def _parse_inet4(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except AddressValueError as error:
        raise ValueError("an IPv4 address like 192.0.2.1 is expected") from error


def _parse_inet6(text: str) -> str:
    try:
        address = IPv6Address(text)
    except AddressValueError as error:
        raise ValueError("an IPv6 address like 2001:db8::1 is expected") from error
    if address.scope_id is not None:
        raise ValueError("an IPv6 address like 2001:db8::1, without a zone, is expected")
    return str(address)


TYPES: dict[str, Rules] = {
    INET4: TypeRules(
        comparable=True,
        order_form=lambda text: IPv4Address(text).packed,
        order_text=lambda data: (str(IPv4Address(data[:4])), 4),
        parse=_parse_inet4,
        json_form=quoted,
        extremes=False,
        of_mysql="inet4",
    ),
    INET6: TypeRules(
        comparable=True,
        normal_form=_normal_inet6,
        one_text=False,
        order_form=lambda text: IPv6Address(text).packed,
        order_text=lambda data: (str(IPv6Address(data[:16])), 16),
        parse=_parse_inet6,
        json_form=quoted,
        extremes=False,
        of_mysql="inet6",
    ),
}
