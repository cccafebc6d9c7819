"""Operators and functions of arrays that compare or put together elements: ``@> <@ &&``, ``||``, ARRAY_POSITION.

An element equals another as its type has it. What has several dimensions, or does not begin at 1, is only compared.
"""

from collections.abc import Callable

from dataflow.errors import EvaluationError
from dataflow.functions import arrays
from dataflow.functions.comparison import element_type
from dataflow.functions.compiler import Compile, Compiler, Function
from dataflow.scalar import Call
from dataflow.types import Row, Value

Form = Callable[[str], str]


#: Elements that are made comparable one by one.
_MAX_FORMS = 25_000


def _same(text: str) -> str:
    return text


def _form(call: Call, place: int) -> Form:
    """The form by which the elements of an argument are compared."""
    element = element_type(call.arguments[place].type)
    if not element.comparable:
        raise ValueError(f"equality of {element.sql} is not known")
    return element.normal_form or _same


def _forms(text: str, form: Form) -> set[Value]:
    elements = arrays.flat(text)
    if form is not _same and len(elements) > _MAX_FORMS:
        raise EvaluationError(f"not computed: more than {_MAX_FORMS} elements that have a normal form")
    return {None if e is None else form(e) for e in elements}


def _sets(decide: Callable[[set[Value], set[Value]], bool]) -> Compiler:
    """An operator that asks what both arrays have in common."""

    def compiler(call: Call, compile_: Compile) -> Function:
        left, right = (compile_.scalar(a) for a in call.arguments)
        left_form, right_form = _form(call, 0), _form(call, 1)

        def function(row: Row) -> Value:
            a, b = left(row), right(row)
            if a is None or b is None:
                return None
            return "t" if decide(_forms(a, left_form), _forms(b, right_form)) else "f"

        return function

    return compiler


def _contains(a: set[Value], b: set[Value]) -> bool:
    # NULL equals nothing, so an array that has one is in none.
    return None not in b and b <= a


def _overlaps(a: set[Value], b: set[Value]) -> bool:
    return bool((a & b) - {None})


def _list(text: Value) -> list[Value]:
    """The elements of an array of one dimension that begins at 1; none of NULL."""
    if text is None:
        return []
    array = arrays.parse(text)
    elements = [e for e in array.elements if not isinstance(e, list)]
    if len(elements) != len(array.elements) or array.first != 1:
        raise EvaluationError("not computed: an array of several dimensions, or one that does not begin at 1")
    return elements


def _append(call: Call, compile_: Compile) -> Function:
    array, element = (compile_.scalar(a) for a in call.arguments)
    return lambda row: arrays.render([*_list(array(row)), element(row)])


def _prepend(call: Call, compile_: Compile) -> Function:
    element, array = (compile_.scalar(a) for a in call.arguments)
    return lambda row: arrays.render([element(row), *_list(array(row))])


def _cat(call: Call, compile_: Compile) -> Function:
    left, right = (compile_.scalar(a) for a in call.arguments)

    def function(row: Row) -> Value:
        a, b = left(row), right(row)
        if a is None or b is None:
            return b if a is None else a
        return arrays.render([*_list(a), *_list(b)])

    return function


def _position(call: Call, compile_: Compile) -> Function:
    """The subscript of the first such element, NULL among them."""
    array, wanted = (compile_.scalar(a) for a in call.arguments)
    form = _form(call, 0)

    def function(row: Row) -> Value:
        text, value = array(row), wanted(row)
        if text is None:
            return None
        looked_for = None if value is None else form(value)
        places = (i for i, e in enumerate(_list(text), 1) if (None if e is None else form(e)) == looked_for)
        place = next(places, None)
        return None if place is None else str(place)

    return function


def _remove(call: Call, compile_: Compile) -> Function:
    array, unwanted = (compile_.scalar(a) for a in call.arguments)
    form = _form(call, 0)

    def function(row: Row) -> Value:
        text, value = array(row), unwanted(row)
        if text is None:
            return None
        gone = None if value is None else form(value)
        return arrays.render([e for e in _list(text) if (None if e is None else form(e)) != gone])

    return function


COMPILERS: dict[str, Compiler] = {
    "array @>": _sets(_contains),
    "array <@": _sets(lambda a, b: _contains(b, a)),
    "array &&": _sets(_overlaps),
    "array_append": _append,
    "array_prepend": _prepend,
    "array_cat": _cat,
    "array_position": _position,
    "array_remove": _remove,
}
