"""Arguments of lookups: keys are taken from columns of other types, too."""

from dataflow.lookups.postgres.lookup import lookup_arguments
from dataflow.plan.nodes import Chain
from dataflow.plan.parts import Lookup
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.types import LookupId, NodeId

INT4 = SqlType("int4", "int4")
NUMERIC = SqlType("numeric", "numeric")


def test_a_number_that_no_integer_is_matches_nothing() -> None:
    chain = Chain("public.t", None, (ColumnRef(0, INT4), ColumnRef(1, NUMERIC)))
    keys = (("1", "1.5"), ("1.5", "2"), ("NaN", "NaN"), ("-7", "0"), (str(10**30), "1"))
    assert lookup_arguments(Lookup(LookupId(1), NodeId(1), chain, (0, 1), keys)) == [
        ["1", None, None, "-7", None],
        ["1.5", "2", "NaN", "0", "1"],
    ]
