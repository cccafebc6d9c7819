"""Arrays of PostgreSQL: compared if their elements are by their texts, and never ordered."""

from collections.abc import Iterator

from dataflow.types.rules import TextForm, TypeRules, ValueKind


def array(element: TypeRules) -> TypeRules:
    """The rules of arrays of a type."""
    return TypeRules(
        kind=ValueKind.ARRAY, comparable=element.comparable and element.normal_form is None, prints_itself=True
    )


def array_json(element: TextForm | None, delimiter: str) -> TextForm:
    """Arrays as JSON, from the JSON form of their elements."""

    def text_of(text: str) -> str:
        # Lower bounds other than 1 are printed in front: [0:1]={a,b}.
        body = text[text.index("=") + 1 :] if text.startswith("[") else text
        return "".join(_tokens(body, delimiter, element))

    return text_of


def _tokens(text: str, delimiter: str, form: TextForm | None) -> Iterator[str]:
    """An array's text token by token (PostgreSQL manual, 8.15.6); nested arrays need no recursion."""
    i, end = 0, len(text)
    while i < end:
        char = text[i]
        if char == "{":
            yield "["
            i += 1
        elif char == "}":
            yield "]"
            i += 1
        elif char == delimiter:
            yield ","
            i += 1
        elif char == '"':
            value, i = _quoted_element(text, i + 1)
            yield value if form is None else form(value)
        else:
            start = i
            while text[i] not in (delimiter, "}"):
                i += 1
            value = text[start:i]
            yield "null" if value == "NULL" else value if form is None else form(value)


def _quoted_element(text: str, i: int) -> tuple[str, int]:
    """The element that begins at `i`, behind its opening quote, and where the text goes on behind the closing one."""
    parts = []
    while (char := text[i]) != '"':
        if char == "\\":
            i += 1
        parts.append(text[i])
        i += 1
    return "".join(parts), i + 1
