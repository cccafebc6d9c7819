"""Decoding of decimals in the binary log and in MySQL's JSON. Pure.

MySQL source code, ``decimal2bin``.

Not here: decimals of lookups (`values`).
"""

from collections.abc import Callable

#: Reads the value at an offset; returns it and its end.
Column = Callable[[bytes, int], tuple[str, int]]

#: Bytes of a group of decimal digits, by their number.
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_reader(precision: int, scale: int) -> Column:
    """Return the reader of decimal(precision, scale): groups of nine digits in four bytes, big endian.

    Remaining digits take fewer bytes. The highest bit is the sign; a negative number has all bits inverted.
    """
    whole, behind = precision - scale, scale
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (behind // 9), behind % 9]
    widths = [(digits, _GROUP_BYTES[digits]) for digits in groups if digits]
    total = sum(width for _, width in widths)
    sign, ones = 1 << (8 * total - 1), (1 << 8 * total) - 1

    def read(data: bytes, at: int) -> tuple[str, int]:
        end = at + total
        value = int.from_bytes(data[at:end], "big") ^ sign
        minus = ""
        if value & sign:
            value ^= ones
            minus = "-"
        if len(widths) == 1:
            digits = str(value)
        else:
            packed = value.to_bytes(total, "big")
            digits, start = "", 0
            for count, width in widths:
                digits += f"{int.from_bytes(packed[start : start + width], 'big'):0{count}d}"
                start += width
            digits = digits.lstrip("0")
        if scale:
            digits = digits.rjust(scale + 1, "0")
            return f"{minus}{digits[:-scale]}.{digits[-scale:]}", end
        return f"{minus}{digits or '0'}", end

    return read
