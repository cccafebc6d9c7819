"""Quotients of MariaDB and MySQL: more digits than a DECIMAL can have."""

import pytest

from dataflow.errors import EvaluationError
from dataflow.evaluate import compile_scalar
from dataflow.scalar import ColumnRef
from dataflow.sql.mysql.arithmetic import quotient
from dataflow.sql.mysql.values import decimal


def test_a_quotient_of_more_digits_than_a_decimal_has_is_the_upstreams() -> None:
    divide = compile_scalar(quotient(ColumnRef(0, decimal(65, 2)), ColumnRef(1, decimal(10, 4))))
    assert divide(("100.00", "3.0000")) == "33.333333"
    assert divide(("100.00", "0.0000")) is None
    with pytest.raises(EvaluationError, match="so many digits"):
        divide(("9" * 63 + ".00", "0.0001"))
