"""The administrator's formula: refused at once when it cannot be used, exact and finite when it can."""

import ast
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline_core.cluster import Policy
from gangline_core.scoring.factors import FACTORS
from gangline_core.scoring.formula import FORMULA_LENGTH_MAX, FUNCTIONS, MILLIONTHS, FormulaError, compile_formula


def value(text: str, **factors: float) -> float:
    formula = compile_formula(text)
    columns = {name: np.array([float(factors.get(name, 0))]) for name in formula.names}
    return sum(int(term[0]) for term in formula.evaluate(columns.__getitem__, 1)) / MILLIONTHS


@pytest.mark.parametrize(
    ("text", "factors", "expected"),
    [
        ("1", {}, 1),
        ("2 * gpus - 3", {"gpus": 4}, 5),
        ("gpus / 4 + -tasks", {"gpus": 2, "tasks": 1}, -0.5),
        ("1 - (gpus - 2) - 3", {"gpus": 5}, -5),
        ("min(gpus, 8, tasks)", {"gpus": 9, "tasks": 3}, 3),
        ("max(priority, 0) + abs(priority)", {"priority": -2}, 2),
        ("log(1 + gpus)", {"gpus": math.e - 1}, 1),
        ("exp(-age_hours)", {"age_hours": 0}, 1),
        ("sqrt(gpus)", {"gpus": 16}, 4),
        ("where(gpus > 4, 10, -10)", {"gpus": 4}, -10),
        ("where(1 < gpus <= 4 and not tasks == 2, 1, 2)", {"gpus": 4, "tasks": 1}, 1),
        ("where(gpus >= 4 or tasks != 1, 1, 2)", {"gpus": 1, "tasks": 1}, 2),
        ("where(estimate_hours > 0, 1 / estimate_hours, 0)", {"estimate_hours": 4}, 0.25),
        ("where(estimate_hours > 0, 1 / estimate_hours, 0)", {"estimate_hours": 0}, 0),
        ("attr_parameters / 1e9", {"attr_parameters": 7e9}, 7),
        ("  level  ", {"level": -1000}, -1000),
    ],
)
def test_a_formula_means_what_it_says(text, factors, expected):
    assert value(text, **factors) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not an expression"),
        ("gpus +", "not an expression"),
        ("gpus; tasks", "not an expression"),
        ("import os", "not an expression"),
        ("agehours", "did you mean age_hours"),
        ("sin(gpus)", "functions are min, max"),
        ("log", "log is a function"),
        ("log(gpus)", "gpus = 0"),
        ("log(1, 2)", "takes 1 arguments"),
        ("min(gpus)", "takes 2 to 16"),
        ("log(1 + gpus, base=2)", "name no arguments"),
        ("1 / estimate_hours", "estimate_hours = 0"),
        ("1 / (gpus - tasks)", "no finite value"),
        ("1 / 0", "no finite value"),
        ("exp(age_hours)", "age_hours = 100000"),
        ("sqrt(priority)", "priority = -1e+06"),
        ("1e999", "too large"),
        ("9" * 400, "too large"),
        ("gpus ** 2", "multiply"),
        ("gpus // 2", "not allowed"),
        ("gpus % 2", "not allowed"),
        ("gpus > 2", "inside where"),
        ("where(gpus, 1, 2)", "is no condition"),
        ("where('a' == 'b', 1, 2)", "not a number"),
        ("where(gpus == 'many', 1, 2)", "where(attr_kind == 'training', a, b)"),
        ("where(attr_kind > 'a', 1, 2)", "not a number"),
        ("where('a' == attr_kind == 'b', 1, 2)", "not a number"),
        ("attr_kind == 'training'", "inside where"),
        ("where(attr_ == 'training', 1, 2)", "unknown factor"),
        ("True", "not a number"),
        ("'level'", "not a number"),
        ("1j", "not a number"),
        ("[1, 2][0]", "not allowed"),
        ("(1).__class__", "not allowed"),
        ("gpus.real", "not allowed"),
        ("__import__('os').system('true')", "not allowed"),
        ("(lambda: 1)()", "not allowed"),
        ("gpus if tasks > 1 else 2", "not allowed"),
        ("(gpus := 3)", "not allowed"),
        ("attr_", "unknown factor"),
        ("+".join(["gpus"] * 65), "65 terms"),
        ("(" * 300 + "1" + ")" * 300, "not an expression"),
        ("1" * (FORMULA_LENGTH_MAX + 1), "at most 1000"),
        ("-" * 900 + "1", "nested more than"),
    ],
)
def test_a_formula_that_cannot_be_used_is_refused_with_the_cause(text, complaint):
    with pytest.raises(FormulaError) as refused:
        compile_formula(text)
    assert complaint in str(refused.value)


def test_a_formula_asks_whether_an_attribute_is_a_text():
    formula = compile_formula("where(attr_kind == 'training' and 'cv' != attr_field, 5, 0) + attr_kind")
    assert formula.names == ("attr_field == cv", "attr_kind", "attr_kind == training")
    columns = {
        "attr_field == cv": np.array([0.0, 1.0, 0.0]),
        "attr_kind": np.array([0.0, 0.0, 7.0]),
        "attr_kind == training": np.array([1.0, 1.0, 0.0]),
    }
    asked, number = formula.evaluate(columns.__getitem__, 3)
    assert asked.tolist() == [5 * MILLIONTHS, 0, 0]
    assert number.tolist() == [0, 0, 7 * MILLIONTHS]


def test_each_summand_is_a_term_with_the_administrators_words():
    formula = compile_formula("level + 1000 * priority + 10 * age_hours - (0.1 * gpus + log(1 + tasks))")
    assert [term.text for term in formula.terms] == [
        "level",
        "1000 * priority",
        "10 * age_hours",
        "-0.1 * gpus",
        "-log(1 + tasks)",
    ]


def test_terms_whose_factors_did_not_change_need_not_be_worked_out_again():
    formula = compile_formula("2 * age_hours - share_used + gpus * share_over_weight")
    before = dict(age_hours=np.array([1.0, 2.0]), gpus=np.array([4.0, 8.0]))
    shares = dict(share_used=np.array([0.5, 0.25]), share_over_weight=np.array([1.0, 3.0]))
    later = dict(share_used=np.array([0.75, 0.5]), share_over_weight=np.array([2.0, 1.0]))
    first = formula.evaluate({**before, **shares}.__getitem__, 2)
    again = formula.again(first, {**before, **later}.__getitem__, changed=("share_used", "share_over_weight"))
    fresh = formula.evaluate({**before, **later}.__getitem__, 2)
    assert [column.tolist() for column in again] == [column.tolist() for column in fresh]
    assert [column.tolist() for column in again] != [column.tolist() for column in first]


def test_the_default_policys_formula_is_legal():
    assert len(compile_formula(Policy().formula).terms) == 4


def test_every_factor_can_be_used_and_says_what_it_is():
    for name, factor in FACTORS.items():
        assert compile_formula(f"2 * {name}").names == (name,)
        assert factor.doc
        assert name == name.lower()
        assert name not in FUNCTIONS


def test_a_division_that_was_not_foreseen_counts_nothing_rather_than_breaking_the_round():
    formula = compile_formula("10 + 1 / (gpus - 4)")
    ten, quotient = formula.evaluate(lambda _: np.array([4.0, 6.0]), 2)
    assert ten.tolist() == [10 * MILLIONTHS] * 2
    assert quotient.tolist() == [0, MILLIONTHS // 2]


NUMBERS = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 3))
EXPRESSIONS = st.recursive(
    st.sampled_from(["gpus", "tasks", "age_hours", "priority", "attr_size"]) | NUMBERS.map(lambda x: f"({x})"),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda x: f"abs({x})"),
        st.tuples(inner, inner).map(lambda t: f"min({t[0]}, {t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"where({t[0]} > {t[1]}, {t[2]}, 1)"),
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS, st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=5))
def test_a_formula_is_refused_or_gives_a_number_for_every_job(text, factor_values):
    try:
        formula = compile_formula(text)
    except FormulaError:
        return
    column = np.array(factor_values)
    terms = formula.evaluate(lambda _: column, len(column))
    assert all(term.dtype == np.int64 and term.shape == column.shape for term in terms)
    again = compile_formula.__wrapped__(text).evaluate(lambda _: column.copy(), len(column))
    assert [term.tolist() for term in terms] == [term.tolist() for term in again]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_no_text_does_anything_but_be_refused_or_be_a_formula(text):
    try:
        formula = compile_formula(text)
    except FormulaError:
        return
    assert {type(node) for node in ast.walk(ast.parse(text.strip(), mode="eval"))}.isdisjoint(
        {ast.Attribute, ast.Lambda}
    )
    assert formula.terms
