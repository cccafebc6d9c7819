"""The document follows the catalog, and says what the answers are."""

from typing import Any

from dataflow.engine.effects import LeafDrop
from dataflow.schema import SqlType
from service.worker.routes.openapi import value_schema
from tests.service.worker.conftest import AUTHOR_ID, Run, Service


def test_one_path_per_view(run: Run) -> None:
    async def test(service: Service) -> None:
        document = (await service.http.get("/openapi.json")).json()
        assert document["openapi"] == "3.1.0"
        operation = document["paths"]["/v1/views/stories_of"]["get"]
        assert operation["operationId"] == "stories_of"
        names = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"]
        assert names == ["author", "limit", "after"]
        schemas = document["components"]["schemas"]
        reference = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
        assert reference == "#/components/schemas/stories_of.answer"
        schema = schemas["stories_of.answer"]
        answer = (await service.http.get("/v1/views/stories_of?author=ann")).json()
        assert list(schema["properties"]) == list(answer)
        assert schema["properties"]["rows"]["items"]["$ref"] == "#/components/schemas/stories_of.row"
        row = schemas["stories_of.row"]
        assert list(row["properties"]) == list(answer["rows"][0])
        assert row["properties"]["votes"]["type"] == ["integer", "null"]
        service.engine.commit(LeafDrop(AUTHOR_ID))
        assert "/v1/views/stories_of" not in (await service.http.get("/openapi.json")).json()["paths"]

    run(test)


def test_every_error_is_a_problem(run: Run) -> None:
    async def test(service: Service) -> None:
        document = (await service.http.get("/openapi.json")).json()
        for path, methods in document["paths"].items():
            for operation in methods.values():
                for status, response in operation["responses"].items():
                    if status >= "400":
                        assert list(response["content"]) == ["application/problem+json"], path
                assert {"400", "401", "403", "500", "503"} <= operation["responses"].keys()
                assert {"200", "101"} & operation["responses"].keys()
        problem = (await service.http.get("/v1/views/story")).json()
        assert set(document["components"]["schemas"]["Problem"]["required"]) <= problem.keys()

    run(test)


def test_references_resolve_and_operations_are_unique(run: Run) -> None:
    async def test(service: Service) -> None:
        document = (await service.http.get("/openapi.json")).json()
        for reference in references(document):
            part = document
            for name in reference.removeprefix("#/").split("/"):
                part = part[name]
        operations = [o["operationId"] for methods in document["paths"].values() for o in methods.values()]
        assert len(operations) == len(set(operations))

    run(test)


def test_parameters_say_what_they_take(run: Run) -> None:
    async def test(service: Service) -> None:
        document = (await service.http.get("/openapi.json")).json()

        def schemas(view: str) -> dict[str, Any]:
            parameters = document["paths"][f"/v1/views/{view}"]["get"]["parameters"]
            return {p["name"]: p for p in parameters if p["in"] == "query"}

        between, of_authors, first = schemas("between"), schemas("of_authors"), schemas("first")
        assert list(between) == ["author", "least", "below", "limit", "after"]
        assert (between["least"]["schema"]["type"], between["least"]["description"]) == ("integer", "Rows from it on.")
        assert between["below"]["required"]
        assert of_authors["authors"]["schema"]["type"] == "array"
        assert of_authors["authors"]["schema"]["items"]["type"] == "string"
        assert of_authors["authors"]["explode"]
        assert (first["n"]["schema"]["minimum"], first["m"]["required"]) == (0, True)

    run(test)


def test_bigints_as_strings() -> None:
    bigint = SqlType("int8", "bigint")
    assert value_schema(bigint)["type"] == "integer"
    assert value_schema(bigint, bigint_text=True)["type"] == "string"
    assert value_schema(SqlType("int4", "integer"), bigint_text=True)["type"] == "integer"


def references(part: Any) -> list[str]:
    if isinstance(part, dict):
        found = [part["$ref"]] if "$ref" in part else []
        return found + [reference for value in part.values() for reference in references(value)]
    return [reference for value in part for reference in references(value)] if isinstance(part, list) else []


def test_value_schemas() -> None:
    mood = SqlType("mood", "public.mood", "enum", labels=("sad", "ok"))
    assert value_schema(mood)["enum"] == ["sad", "ok"]
    assert value_schema(SqlType("int4", "int4[]", "array", SqlType("int4", "int4")))["type"] == "array"
    assert value_schema(SqlType("numeric", "numeric"))["type"] == "string"
    assert value_schema(SqlType("point", "point", "other"))["type"] == "string"
