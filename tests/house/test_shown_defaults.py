"""What pages list of the code is all there is of it, with the defaults that the code has."""

import re

from msgspec import structs
from tests.house.test_docs import ROOT, text

from gangline_core.cluster import Policy
from gangline_core.elasticity import POLICIES
from gangline_gateway.config import Config as Gateway
from gangline_lab.readers import READERS
from gangline_lab.sim.conditions import Conditions

ROW = re.compile(r"^\| (`[^|]+`) \| ([^|]*) \|", re.MULTILINE)
NAME = re.compile(r"`([^`]+)`")
DOMAIN = re.compile(r"[a-z0-9.-]+\.[a-z]+/[A-Za-z][\w.-]*")


def table(page: str, head: str) -> str:
    """The rows below a head that begins so."""
    return text(page).split(f"\n| {head}", 1)[1].split("\n\n", 1)[0]


def spelled(value: object) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, int | float)
        else str(value)
    )


def test_the_page_of_the_lab_lists_every_condition_of_a_simulation_with_its_default() -> None:
    shown = {
        name: default
        for names, default in ROW.findall(table("docs/lab.md", "`simulation`"))
        for name in NAME.findall(names)
    }
    fields = {field.name: field.default for field in structs.fields(Conditions)}
    assert set(shown) == set(fields)
    plain = {name: value for name, value in fields.items() if isinstance(value, bool | int | float | str)}
    assert {name: shown[name] for name in plain} == {name: spelled(value) for name, value in plain.items()}


def test_the_page_of_the_lab_lists_every_format_of_traces() -> None:
    shown = {name for names, _ in ROW.findall(table("docs/lab.md", "format")) for name in NAME.findall(names)}
    assert shown == set(READERS)


def test_the_page_of_elastic_jobs_explains_every_policy_and_says_which_is_the_default() -> None:
    rows = re.findall(r"^\| `(\w+)`( \(default\))? \|", table("docs/elastic.md", "policy"), re.MULTILINE)
    assert {name for name, _ in rows} == set(POLICIES)
    assert [name for name, mark in rows if mark] == [Policy().elastic]


def test_what_the_page_of_kubernetes_says_is_understood_stands_in_the_service() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "services/gangline_kubernetes").glob("*.py"))
    own = code.replace('GROUP + "/', '"gangline.dev/').replace('f"{GROUP}/', '"gangline.dev/')
    shown = set(DOMAIN.findall(table("docs/kubernetes.md", "Need")))
    assert len(shown) > 30
    assert [name for name in sorted(shown) if name not in own and f'/{name.partition("/")[2]}"' not in own] == []


def test_values_of_the_chart_that_pages_name_are_in_its_schema() -> None:
    schema = (ROOT / "helm/gangline/values.schema.json").read_text(encoding="utf-8")
    named = re.findall(r"`((?:cluster|nats|jobs|agent|image)\.[A-Za-z.]+)[`:]", text("docs/kubernetes.md"))
    assert len(named) > 5
    assert [name for name in named if any(f'"{part}"' not in schema for part in name.split("."))] == []


def test_the_page_of_the_bus_says_how_long_the_gateway_takes_at_most() -> None:
    page = text("docs/integration/nats.md")
    assert f"an answer takes at most {Gateway().answer_s_max:g} s" in page
    assert f"sends a comment every {Gateway().heartbeat_s:g} s" in page
