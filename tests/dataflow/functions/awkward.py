"""Awkward values of every type, as a server takes them."""

from dataflow.schema import SqlType
from dataflow.types import Value

VALUES: dict[str, tuple[Value, ...]] = {
    "bool": ("t", "f", None),
    "int2": ("-32768", "-7", "-1", "0", "1", "2", "3", "32767", None),
    "int4": ("-2147483648", "-100", "-2", "-1", "0", "1", "2", "3", "7", "32", "1000", "2147483647", None),
    "int8": (
        "-9223372036854775808", "-5", "-1", "0", "1", "2", "12", "33", "9007199254740993", "9223372036854775807", None,
    ),
    "numeric": (
        "0", "0.00", "1", "1.0", "-1.50", "2", "2.5", "0.5", "-0.5", "1.49", "1e30", "9007199254740993", "NaN",
        "Infinity", "-Infinity", "32767.5", "0.000000000000000000001", "-7", "3", "99999.99995", "1234567890.123456789",
        "1e-10", "12345.678", "0.3333", "10000", "9999.9999", None,
    ),
    "float4": ("0", "-0", "0.1", "NaN", "Infinity", "-Infinity", "-1.5", "3", "1e38", "1e-45", "16777217", "2.5", None),
    "float8": (
        "0", "-0", "0.1", "9007199254740992", "NaN", "-Infinity", "Infinity", "2", "-2.5", "0.5", "1.5", "1e308",
        "5e-324", "1e15", "123456789012345678", "1e-5", "0.0001", "3", "-0.49999999999999994", "1e22", None,
    ),
    "text": (
        "", "a", "ab", "A", "aä", "%", "a\nb", "1", "\\", "a'b", "  x  ", "a,b,c", "ÀÉîß", "Straße ﬁ", "a_b%c",
        "xyzxyz", "日本語テキスト", "-12", "\u0130I\u0131i", "!", "a\\%b", "the quick-brown fox2go", None,
    ),
    "bpchar": ("", "a", "a ", "b", "Ab  ", None),
    "bytea": ("\\x", "\\x00", "\\xdeadbeef", "\\x" + "ab" * 80, None),
    "mood": ("sad", "ok", "happy", None),
    "uuid": ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "00000000-0000-0000-0000-000000000000", None),
    "date": (
        "2024-02-29", "0044-03-15 BC", "infinity", "-infinity", "2000-01-01", "1970-01-01", "1999-12-31", "2021-01-03",
        "0001-01-01", "5874897-12-31", "4713-01-01 BC", "2016-12-31", "2000-10-31", None,
    ),
    "time": ("00:00:00", "24:00:00", "12:34:56.789", "23:59:59.999999", "05:00:01", None),
    "timestamp": (
        "2024-02-29 12:34:56.789012", "0044-03-15 01:02:03 BC", "infinity", "-infinity", "2000-01-01 00:00:00",
        "1970-01-01 00:00:00.5", "1999-12-31 23:59:59.999999", "2021-01-03 10:00:00", "0001-01-01 00:00:00",
        "294276-12-31 23:59:59", "4713-01-01 00:00:00 BC", "2016-12-31 12:00:00", "2023-03-31 08:05:09.000001",
        "0101-05-05 00:00:00 BC", "1000-07-07 07:07:07", None,
    ),
    "interval": (
        "1 mon", "30 days", "-1 day", "00:00:00.5", "0", "1 year 2 mons 3 days 04:05:06.789", "-1 mon +5 days -03:00",
        "100000 years", "-00:00:01", "25:00:00", "-35 days +49:00:00", "178000000 years", "13 mons 65 days -100:00:00",
        "infinity", "-infinity", "11 mons", None,
    ),
    "json": (
        '{"a": 1}', '{ "a" : {"b":[1, 2 ,"x"]} , "b":null, "a":"again" }', "[]", "[1,2,  {\"k\": \"v\"}]", '"text"',
        "1", "null", "true", '{"a\\u0062": "\\u00e9\\n\\"q\\""}', ' [ null, "a", 1.50, false ] ', "-1.5e3",
        '{"a": "\\u0000"}', '{"": {}, "1": [[]]}', '["a", "b"]', None,
    ),
    "text[]": ("{}", "{a}", "{a,b}", "{NULL,a}", "{0}", "{-1}", "{a,b,1}", '{"",1}', "{b,-1}", None),
    "int4[]": ("{}", "{1}", "{1,NULL,3}", "{{1,2},{3,4}}", "[2:3]={7,8}", None),
}  # fmt: skip
VALUES["varchar"] = VALUES["name"] = VALUES["text"]
VALUES["timestamptz"] = tuple(
    v if v is None or "infinity" in v else f"{v.removesuffix(' BC')}+00{' BC' if v.endswith(' BC') else ''}"
    for v in VALUES["timestamp"]
)
VALUES["jsonb"] = tuple(v for v in VALUES["json"] if v is None or "u0000" not in v)
VALUES["numeric(10,2)"] = ("0", "1", "1.5", "-99999999.99", "NaN", None)


def type_of(name: str) -> SqlType:
    """The type of that name; text is of a database in C.UTF-8."""
    if name.endswith("[]"):
        element = type_of(name[:-2])
        return SqlType(element.name, name, "array", element)
    return SqlType(name, name, folding="simple" if name in ("text", "varchar", "bpchar", "name") else "")
