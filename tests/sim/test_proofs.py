"""The page of what the dollhouse proves names what there is: functions, mutants, tests, and faults that strike."""

import ast
import importlib
from pathlib import Path

import pytest
from msgspec.structs import fields
from tests.bus.alike import KINDS
from tests.named import missing
from tests.sim.test_seed_mutants import DAMAGES, SEEDS

import dollhouse
from dollhouse.acts import ACTS
from dollhouse.connection import Rates
from dollhouse.invariants import INVARIANTS
from dollhouse.oracles import ORACLES
from dollhouse.plan import Ask, Plan
from dollhouse.play import play
from dollhouse.promises import CONTRACT, PROMISES, Promise
from dollhouse.strikes import is_drawn, kept
from dollhouse.struck import FAULTS
from dollhouse.troubles import TROUBLES
from dollhouse.wider import draw_plan

ON_BOTH = ("bus/test_contract", "bus/test_contract_rare", "bus/test_contract_reconnects")
HERE = Path(__file__).parents[1]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.says)
def test_a_sentence_names_checks_that_exist_and_mutants_that_break_it(promise: Promise) -> None:
    assert promise.checks
    assert promise.mutants
    assert set(promise.mutants) <= set(DAMAGES)
    assert set(promise.mutants) <= set(SEEDS)
    for name in promise.checks:
        module, *path = name.split(".")
        found: object = importlib.import_module(f"{dollhouse.__name__}.{module}")
        for part in path:
            found = getattr(found, part)
        assert callable(found), name


def test_every_invariant_and_oracle_and_mutant_stands_in_a_sentence() -> None:
    named = {name for promise in PROMISES for name in promise.checks}
    assert {f"invariants.{one.__name__}" for one in INVARIANTS.values()} <= named
    assert {promise.oracle for promise in PROMISES} - {""} == set(ORACLES)
    assert {mutant for promise in PROMISES for mutant in promise.mutants} == set(DAMAGES)


@pytest.mark.parametrize("clause", CONTRACT)
def test_a_clause_of_the_contract_is_held_by_tests_of_both_kinds_of_bus(clause: str) -> None:
    assert missing(CONTRACT[clause], "bus") == []
    assert {test.partition("::")[0] for test in CONTRACT[clause]} <= set(ON_BOTH)


def test_those_tests_are_asked_of_the_double_and_of_real_servers_one_and_three_of_each() -> None:
    assert set(KINDS) == {"memory", "memory of three", "one server", "three servers"}
    for file in ON_BOTH:
        tree = ast.parse((HERE / f"{file}.py").read_text())
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert "KINDS" in names or "kind_fixture" in imported, file


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_drawn_by_what_there_is_and_has_struck(name: str) -> None:
    known = {*TROUBLES, *ACTS} | {field.name for kind in (Rates, Ask, Plan) for field in fields(kind)}
    assert set(FAULTS[name].drawn) <= known
    counted = kept()
    assert set(counted.drawn) == set(counted.struck) == set(FAULTS)
    assert counted.seeds == 50
    assert counted.struck[name] > 0
    assert 0 < counted.drawn[name] <= 50


def test_what_is_counted_is_drawn_in_the_run() -> None:
    plan = draw_plan(8)
    struck = play(plan).struck
    seen = {name for name, fault in FAULTS.items() if any(struck.get(note) for note in fault.notes)}
    asked = {"message delay", "duplicate", "refused append", "two leaders"}
    assert asked <= seen
    assert all(is_drawn(plan, FAULTS[name]) for name in asked)
