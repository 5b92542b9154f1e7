"""Every sentence about placement names tests, and these exist."""

import ast
from functools import cache
from pathlib import Path

import pytest
from tests.oracles.promised import PROMISED

TESTS = Path(__file__).parent.parent


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / f"{file}.py").read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("sentence", sorted(PROMISED))
def test_a_promise_names_tests_that_exist(sentence):
    assert PROMISED[sentence]
    for named in PROMISED[sentence]:
        file, _, test = named.partition("::")
        assert test in functions_of(file), f"there is no {named}"
