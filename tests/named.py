"""Tests by name: tables that say which test proves what are held against the files."""

import ast
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def functions_of(file: str) -> frozenset[str]:
    """Names of the tests in a file, such as "core/test_moves"."""
    tree = ast.parse((HERE / f"{file}.py").read_text())
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


def missing(named: list[str] | tuple[str, ...], folder: str) -> list[str]:
    """Those of "file::test" that do not exist; a file without a folder lies in this one."""
    absent = []
    for one in named:
        file, _, test = one.partition("::")
        if test not in functions_of(file if "/" in file else f"{folder}/{file}"):
            absent.append(one)
    return absent
