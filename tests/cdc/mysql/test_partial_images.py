"""Transactions with partial row images, as events of MySQL's documentation."""

from dataclasses import replace
from struct import pack

from cdc.change import UNKNOWN, CommittedTransaction, TableChange, TableLayout
from cdc.column_type import ColumnType
from cdc.mysql import events
from cdc.mysql.assembler import BinlogAssembler

INT = ColumnType("int")
NAME = "shop.items"
LAYOUT = TableLayout(("id", "a", "b"), column_types=(INT, INT, INT), key=(0,))
WRITE, UPDATE, DELETE = events.WRITE_ROWS_V1, events.UPDATE_ROWS_V1, events.DELETE_ROWS_V1
ALL = 0b111

#: An image: values of the columns, None for those that it lacks.
Image = tuple[int | None, int | None, int | None]


class Log:
    """Events of one transaction of MariaDB."""

    def __init__(self, layout: TableLayout = LAYOUT, **limits: int) -> None:
        self.assembler = BinlogAssembler("binlog.000001", 4, **{"max_transaction_rows": 100, **limits})
        self.assembler.follow({NAME: layout})
        self.offset = 4
        self._add(events.QUERY, pack("<IIBHH", 1, 0, 4, 0, 0) + b"shop\0BEGIN")
        self._add(events.TABLE_MAP, pack("<IHH", 7, 0, 1) + b"\x04shop\0\x05items\0\x03\x03\x03\x03\x00\x07")

    def _add(self, kind: int, body: bytes) -> CommittedTransaction | None:
        self.offset += 19 + len(body)
        event = pack("<IBIIIH", 1, kind, 1, 19 + len(body), self.offset, 0) + body
        return self.assembler.feed(event, 0, len(event))

    def rows(self, kind: int, *images: Image) -> None:
        """One event; all images of a kind have the same columns."""
        masks = [sum(1 << i for i, v in enumerate(image) if v is not None) for image in images[: 1 + (kind == UPDATE)]]
        body = b"".join(b"\0" + b"".join(pack("<i", v) for v in image if v is not None) for image in images)
        self._add(kind, pack("<IHH", 7, 0, 1) + b"\x03" + bytes(masks) + body)

    def statement(self, text: str) -> None:
        self._add(events.QUERY, pack("<IIBHH", 1, 0, 4, 0, 0) + b"shop\0" + text.encode())

    def change(self) -> TableChange | None:
        """The table's net change."""
        found = self._add(events.XID, pack("<Q", 5))
        assert self.assembler.take_notices() == []
        return None if found is None else found.tables[NAME]


def change_of(*rows: tuple[int, tuple[Image, ...]], layout: TableLayout = LAYOUT) -> TableChange | None:
    log = Log(layout)
    for kind, images in rows:
        log.rows(kind, *images)
    return log.change()


def test_set_values_of_known_rows() -> None:
    found = change_of((UPDATE, ((1, None, None), (None, 5, None), (2, None, None), (None, 6, None))))
    unknown = (UNKNOWN, UNKNOWN)
    expected = [(("1", *unknown), ("1", "5", UNKNOWN)), (("2", *unknown), ("2", "6", UNKNOWN))]
    assert found == TableChange(partial=expected)


def test_omitted_defaults_of_new_rows() -> None:
    assert change_of((WRITE, ((1, 5, None),))) == TableChange(partial=[(None, ("1", "5", UNKNOWN))])


def test_deleted_rows() -> None:
    assert change_of((DELETE, ((1, None, None),))) == TableChange(partial=[(("1", UNKNOWN, UNKNOWN), None)])


def test_a_row_that_names_its_key_may_have_defaults() -> None:
    """A REPLACE is logged like this."""
    found = change_of((UPDATE, ((1, None, None), (1, 5, None))))
    assert found == TableChange(partial=[(("1", UNKNOWN, UNKNOWN), None), (None, ("1", "5", UNKNOWN))])


def test_values_after_a_replacement() -> None:
    """Later changes concern the new row."""
    replaced = (UPDATE, ((1, None, None), (1, 5, None)))
    found = change_of(replaced, (UPDATE, ((1, None, None), (None, None, 7))))
    assert found == TableChange([], [("1", "5", "7")], partial=[(("1", UNKNOWN, UNKNOWN), None)])
    assert change_of(replaced, (DELETE, ((1, None, None),))) == change_of((DELETE, ((1, None, None),)))


def test_generated_columns_that_are_not_in_the_image() -> None:
    found = change_of((UPDATE, ((1, None, None), (None, 5, None))), layout=replace(LAYOUT, generated=(2,)))
    assert found == TableChange(partial=[(("1", UNKNOWN, UNKNOWN), None), (None, ("1", "5", UNKNOWN))])


def test_old_rows_without_large_values() -> None:
    """NOBLOB: the known values of the old row are delivered."""
    found = change_of((UPDATE, ((1, 2, None), (1, 5, None))))
    assert found == TableChange(partial=[(("1", "2", UNKNOWN), None), (None, ("1", "5", UNKNOWN))])


def test_whole_old_rows_complete_the_new_ones() -> None:
    """FULL_NODUP."""
    assert change_of((UPDATE, ((1, 2, 3), (None, 5, None)))) == TableChange([("1", "2", "3")], [("1", "5", "3")])


def test_whole_rows_before_and_after_partial_ones() -> None:
    whole = ((UPDATE, ((1, 2, 3), (1, 2, 4))), (WRITE, ((9, 9, 9),)))
    partial = (UPDATE, ((1, None, None), (None, 7, None)))
    expected = TableChange([("1", "2", "3")], [("9", "9", "9"), ("1", "7", "4")])
    assert change_of(*whole, partial) == expected
    found = change_of(partial, (UPDATE, ((1, 7, 4), (1, 8, 5))))
    assert found == TableChange(partial=[(("1", UNKNOWN, UNKNOWN), ("1", "8", "5"))])
    assert change_of((WRITE, ((1, 2, None),)), (DELETE, ((1, None, None),))) is None


def test_images_that_do_not_identify_their_rows() -> None:
    overflow = TableChange(overflow=True)
    assert change_of((WRITE, ((None, 5, None),))) == overflow
    assert change_of((DELETE, ((None, 5, None),))) == overflow
    deleted = (DELETE, ((1, None, None),))
    assert change_of(deleted, deleted) == overflow
    assert change_of(deleted, layout=replace(LAYOUT, key=())) == overflow
    # A key of two columns of which a REPLACE may have reset the other one.
    assert change_of((UPDATE, ((1, 2, None), (3, None, None))), layout=replace(LAYOUT, key=(0, 1))) == overflow


def test_limits_and_rollbacks() -> None:
    log = Log(max_transaction_rows=1)
    log.rows(UPDATE, (1, None, None), (None, 5, None))
    log.rows(WRITE, (3, None, None))
    assert log.change() == TableChange(overflow=True)
    log = Log()
    log.rows(DELETE, (1, None, None))
    log.statement("ROLLBACK TO s")
    log.rows(WRITE, (3, None, None))
    assert log.change() == TableChange(overflow=True)
    log = Log()
    log.rows(DELETE, (1, None, None))
    log.statement("TRUNCATE items")
    assert log.change() == TableChange(truncated=True)
