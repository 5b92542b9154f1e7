"""The API's document: made of the routes, valid, and true to what the server answers."""

import re
from typing import Any

import jsonschema
import msgspec
import pytest
from tests.make import HOUR, T0, spec
from tests.services.gateway.conftest import Visitor

from gangline_core import facts as f
from gangline_core.reserving.windows import Window
from gangline_core.spec import ArraySpec
from gangline_gateway.openapi import document
from gangline_gateway.problems import KINDS
from gangline_gateway.routes import ROUTES
from gangline_wire.jobfile import parse_job

DOCUMENT = document()


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the components at hand."""
    return {**schema, "components": DOCUMENT["components"]}


def test_every_route_of_the_server_is_in_the_document(visitor: Visitor) -> None:
    served = {
        (route.method, re.sub(r"\{(\w+):[^}]*\}", r"{\1}", resource.canonical))
        for resource in visitor.setting.app.router.resources()
        for route in resource
        if route.method != "HEAD"
    }
    told = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert served == told == {(route.method, route.path) for route in ROUTES}


def test_operation_ids_are_unique() -> None:
    ids = [operation["operationId"] for methods in DOCUMENT["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


def test_every_schema_is_valid_and_every_reference_leads_somewhere() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    text = msgspec.json.encode(DOCUMENT).decode()
    for name in set(re.findall(r"#/components/schemas/([^\"]+)", text)):
        assert name in DOCUMENT["components"]["schemas"]


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.body], ids=lambda route: f"{route.method} {route.path}"
)
def test_every_example_is_valid(route: Any) -> None:
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    media = operation["requestBody"]["content"]["application/json"]
    jsonschema.validate(media["example"], resolve(media["schema"]))
    if route.body == "JobFile":
        parse_job(media["example"])


def test_every_code_a_route_names_exists() -> None:
    assert {code for route in ROUTES for code in route.problems} <= set(KINDS)


async def test_the_document_is_served_without_a_token(visitor: Visitor) -> None:
    assert await visitor.ask("", "GET", "/openapi.json") == msgspec.json.decode(msgspec.json.encode(DOCUMENT))


async def test_answers_are_as_the_document_says(visitor: Visitor) -> None:
    world = visitor.setting.world
    job = world.submit_running(spec(group="t1", user="una", gpus=1), "n1")
    world.submit(spec(group="t1", user="una", name="waits", gpus=8))
    world.submit(spec(group="t1", user="una", name="many", array=ArraySpec(ranges=((0, 9, 1),))))
    world.tell("admission", f.WindowSet(window=Window("bios", "default", T0, T0 + HOUR), by="root"))
    for route in ROUTES:
        if route.method != "GET" or route.is_stream or isinstance(route.answers, str):
            continue
        names = {"id": "n1" if "nodes" in route.path else str(job), "path": "t1", "user": "una", "pool": "default"}
        names |= {"name": "bios"}
        response = await visitor.call("admin", "GET", route.path.format(**names))
        body = await response.json()
        assert response.status == route.status, (route.path, body)
        content = DOCUMENT["paths"][route.path]["get"]["responses"][str(route.status)]["content"]
        jsonschema.validate(body, resolve(content["application/json"]["schema"]))


async def test_problems_are_as_the_document_says(visitor: Visitor) -> None:
    problem = await visitor.submit("una", gpus=-1, status=422)
    jsonschema.validate(problem, resolve({"$ref": "#/components/schemas/ProblemView"}))
