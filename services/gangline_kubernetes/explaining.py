"""What the fields of a struct are for, as their docstrings in its source say: the texts of `kubectl explain`."""

import ast
import inspect
import textwrap


def notes_of(kind: type) -> dict[str, str]:
    """The docstring of each field that has one, on one line."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    waiting: list[str] = []
    for step in tree.body:
        if isinstance(step, ast.AnnAssign) and isinstance(step.target, ast.Name):
            waiting.append(step.target.id)
        elif isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant) and isinstance(step.value.value, str):
            # One text may be about several fields that stand above it.
            text = " ".join(step.value.value.split())
            found |= dict.fromkeys(waiting, text)
            waiting = []
        else:
            waiting = []
    return found


def name_in_words(field: str) -> str:
    """What the name of a field says by itself, for one that has no text."""
    return field.replace("_", " ").capitalize() + "."
