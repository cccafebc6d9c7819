"""Names of the types of MariaDB and MySQL that PostgreSQL does not have, as `SqlType.name` has them.

The others go by PostgreSQL's names (integers, ``numeric``, floats, ``text``, ``varchar``, ``bytea``, ``json``), since
their values print and compare the same. One text per value, whatever it came through:

| type | text |
|---|---|
| `UINT8` | the digits of an unsigned 64-bit number |
| `DATE` | ``2024-02-29``; zero dates (``0000-00-00``, ``2024-00-00``) as they are |
| `DATETIME` `TIMESTAMP` | ``2024-02-29 12:00:00.500``, always the column's digits of a second; `TIMESTAMP` in UTC |
| `TIME` | ``-12:00:00.5``, at least two digits of hours, up to 838 |
| `ENUM` | the label; an empty text is no label (index 0) |
| `SET` | labels in the definition's order with commas between |
| `INET4` `INET6` | as the server prints |
| `UUID` | of MariaDB; not PostgreSQL's ``uuid``, since its order is another |
| `JSON` | of MySQL: the server's text; neither compared nor ordered |

`SqlType.sql` has the digits of a second: ``datetime(3)``, `SqlType.labels` those of enums and sets, in order, and
`SqlType.weights` the collation of enums, sets and text.
"""

UINT8 = "uint8"
DATE = "mysql_date"
DATETIME = "mysql_datetime"
TIMESTAMP = "mysql_timestamp"
TIME = "mysql_time"
#: Of kind ``enum``.
ENUM = "mysql_enum"
SET = "mysql_set"
INET4 = "inet4"
INET6 = "inet6"
UUID = "mysql_uuid"
#: Of kind ``other``.
JSON = "mysql_json"
