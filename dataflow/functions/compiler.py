"""The compiler's interface to families whose functions are not plain functions of texts."""

from collections.abc import Callable
from typing import NamedTuple

from dataflow.scalar import Call, Scalar
from dataflow.types import Row, Value

Function = Callable[[Row], Value]
Predicate = Callable[[Row], bool]


class Compile(NamedTuple):
    """How a call's arguments are compiled: by `dataflow.evaluate`."""

    scalar: Callable[[Scalar], Function]
    predicate: Callable[[Scalar], Predicate]


Compiler = Callable[[Call, Compile], Function]
PredicateCompiler = Callable[[Call, Compile], Predicate]
