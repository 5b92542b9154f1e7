"""Reads what a Struct, a class or a module says about itself: docstrings, fields, and the notes below them."""

import ast
import inspect
import textwrap
from types import ModuleType
from typing import NamedTuple


class Field(NamedTuple):
    """One field of a class or one constant of a module, as written in the source."""

    name: str
    type: str
    default: str
    """Source text of the default, empty when there is none."""
    meaning: str
    """The string below it, empty when there is none."""


def summary(thing: object) -> str:
    """First paragraph of a docstring, on one line."""
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split())


def whole(thing: object) -> str:
    """The docstring on one line."""
    return " ".join((inspect.getdoc(thing) or "").split())


def rest(thing: object) -> str:
    """What a docstring says after its first paragraph, on one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[2].split())


def fields(kind: type) -> list[Field]:
    """Fields the class itself declares, in order."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    (body,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return declared(body.body)


def constants(module: ModuleType) -> dict[str, Field]:
    """Module-level names that carry a note, by name."""
    return {field.name: field for field in declared(ast.parse(inspect.getsource(module)).body)}


def declared(body: list[ast.stmt]) -> list[Field]:
    """Assignments of a body with the strings that follow them."""
    found = []
    for position, node in enumerate(body):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                found.append(Field(name, ast.unparse(annotation), source(value), note(body, position)))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.append(Field(name, "", source(value), note(body, position)))
            case _:
                pass
    return found


def source(value: ast.expr | None) -> str:
    """Source text of a default."""
    return "" if value is None else ast.unparse(value)


def note(body: list[ast.stmt], position: int) -> str:
    """The string directly below a statement."""
    match body[position + 1 : position + 2]:
        case [ast.Expr(value=ast.Constant(value=str(text)))]:
            return " ".join(text.split())
        case _:
            return ""
