"""The administrator's priority formula: checked when it is set, computed for all waiting jobs at once.

A formula is a sum of terms over named factors (`gangline_core.scoring.factors.FACTORS` and `attr_<name>`), such as
`level + 10 * age_hours - 2 * log(1 + gpus) + where(attr_parameters > 1e9, 5, 0)`. It may use `+ - * /`, numbers,
parentheses, the functions of FUNCTIONS, and inside `where` comparisons, of attributes with texts as well:
`where(attr_kind == 'inference', 5, 0)`. Nothing else of Python is let in: the text is parsed, every node is checked
against a short list, and only then turned into array operations.
"""

import ast
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, reduce

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.scoring import factors
from gangline_core.scoring.factors import ATTRIBUTE_PREFIX, probe_values, text_factor

Column = NDArray[np.float64]
"""One number per job."""
Columns = Callable[[str], Column]
"""How a formula gets the column of a factor."""

FACTORS: dict[str, str] = {name: factor.doc for name, factor in factors.FACTORS.items()}
"""Every named factor and what it is; `attr_<name>` besides is the job's attribute of that name."""
FORMULA_LENGTH_MAX = 1_000
TERMS_MAX = 64
DEPTH_MAX = 100
MILLIONTHS = 1_000_000
"""Scores and their terms are integers in millionths."""
TERM_MAX = 1e11
"""No term counts for more than this; the sum of TERMS_MAX of them in millionths still fits 64 bits."""


class FormulaError(Exception):
    """The formula cannot be used; the message says where and why."""


class Term(Struct, frozen=True):
    """One summand as the administrator wrote it, and how it is computed."""

    text: str
    compute: Callable[[Columns], Column]
    names: frozenset[str]
    """Factors it uses."""


class Formula(Struct, frozen=True):
    """A checked formula."""

    text: str
    terms: tuple[Term, ...]
    names: tuple[str, ...]
    """Factors it uses, in alphabetical order."""

    def evaluate(self, columns: Columns, rows: int) -> list[NDArray[np.int64]]:
        """Each term for each of `rows` jobs, in millionths; where a term has no finite value it counts 0."""
        return _evaluated(self.terms, columns, rows)

    def again(
        self, before: Sequence[NDArray[np.int64]], columns: Columns, *, changed: Collection[str]
    ) -> list[NDArray[np.int64]]:
        """The same for these jobs where only some factors have changed since `before` was worked out."""
        found = list(before)
        moved = [k for k, term in enumerate(self.terms) if not term.names.isdisjoint(changed)]
        if moved:
            anew = _evaluated([self.terms[k] for k in moved], columns, len(found[0]))
            for k, own in zip(moved, anew, strict=True):
                found[k] = own
        return found


def _evaluated(terms: Sequence[Term], columns: Columns, rows: int) -> list[NDArray[np.int64]]:
    values = np.empty((len(terms), rows))
    with np.errstate(all="ignore"):
        for line, term in zip(values, terms, strict=True):
            line[:] = term.compute(columns)
        return list(quantised(values))


@lru_cache(maxsize=256)
def compile_formula(text: str) -> Formula:
    """Check a formula and make it ready.

    Raises:
        FormulaError: it is no such expression, uses an unknown name, or has no finite value for some possible job.
    """
    tree = _parse(text)
    _check_names(tree)
    summands = [
        Term(
            text=_summand_text(node, is_minus=is_minus),
            compute=_signed(node, is_minus=is_minus),
            names=frozenset(_names(node)),
        )
        for node, is_minus in _summands(tree)
    ]
    if len(summands) > TERMS_MAX:
        raise FormulaError(f"the formula has {len(summands)} terms; at most {TERMS_MAX} are allowed")
    formula = Formula(text=text, terms=tuple(summands), names=tuple(sorted(_names(tree))))
    _probe(formula)
    return formula


def quantised(values: Column) -> NDArray[np.int64]:
    """Numbers in millionths, rounded half to even; values without meaning are 0, huge ones are cut at TERM_MAX."""
    finite = values if np.isfinite(values).all() else np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    cut: Column = np.minimum(np.maximum(finite, -TERM_MAX), TERM_MAX)
    return np.rint(cut * MILLIONTHS).astype(np.int64)


# --- reading ------------------------------------------------------------------------------------------------


def _parse(text: str) -> ast.expr:
    if len(text) > FORMULA_LENGTH_MAX:
        raise FormulaError(f"the formula has {len(text)} characters; at most {FORMULA_LENGTH_MAX} are allowed")
    if not text.strip():
        raise FormulaError("not an expression: it is empty; write one such as `priority + age_hours`")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        # At the end of the text Python says no place, or 0.
        where = f"at character {error.offset}" if error.offset else "at its end"
        raise FormulaError(f"not an expression: {error.msg} {where}") from None
    except (ValueError, RecursionError, MemoryError):
        raise FormulaError("not an expression that can be read") from None
    if _depth(tree) > DEPTH_MAX:
        raise FormulaError(f"the formula is nested more than {DEPTH_MAX} levels deep")
    return tree


def _depth(tree: ast.expr) -> int:
    """How deep the tree is, found without recursion."""
    level: list[ast.AST] = [tree]
    depth = 0
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _summands(node: ast.expr, *, is_minus: bool = False) -> Iterator[tuple[ast.expr, bool]]:
    """The terms of a sum, left to right, each with its sign."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _summands(left, is_minus=is_minus)
            yield from _summands(right, is_minus=is_minus)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield from _summands(left, is_minus=is_minus)
            yield from _summands(right, is_minus=not is_minus)
        case _:
            yield node, is_minus


def _summand_text(node: ast.expr, *, is_minus: bool) -> str:
    return f"-{ast.unparse(node)}" if is_minus else ast.unparse(node)


def _signed(node: ast.expr, *, is_minus: bool) -> Callable[[Columns], Column]:
    compute = _number(node)
    return (lambda columns: -compute(columns)) if is_minus else compute


def _names(tree: ast.expr) -> set[str]:
    nodes = list(ast.walk(tree))
    texts = [(node, name) for node in nodes if isinstance(node, ast.Compare) and (name := _of_text(node))]
    other = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    other |= {id(side) for node, _ in texts for side in (node.left, *node.comparators)}
    return {name for _, name in texts} | {
        node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in other
    }


def _check_names(tree: ast.expr) -> None:
    for name in sorted(_names(tree)):
        if probe_values(name) is None:
            hint = f"{name} is a function; write {name}(...)" if name in FUNCTIONS else _nearest(name)
            raise FormulaError(f"unknown factor {name!r}{hint and ': '}{hint}")


def _nearest(name: str) -> str:
    near = get_close_matches(name, FACTORS, n=1)
    return f"did you mean {near[0]}?" if near else ""


# --- compiling ----------------------------------------------------------------------------------------------

_ARITHMETIC: dict[type[ast.operator], Callable[[Column, Column], Column]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Column, Column], NDArray[np.bool_]]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}


def _each(function: Callable[[float], float]) -> Callable[[Column], Column]:
    """A function of one number, used on every element.

    The mathematics library of the interpreter is used rather than vector instructions, whose last digit differs
    between processors: the same log must give the same order everywhere.
    """

    def safe(value: float) -> float:
        try:
            return function(value)
        except (ValueError, OverflowError):
            return math.nan

    return lambda column: np.array([safe(value) for value in np.atleast_1d(column).tolist()], dtype=np.float64)


FUNCTIONS: dict[str, tuple[int, int, str]] = {
    "min": (2, 16, "the smallest of its arguments"),
    "max": (2, 16, "the largest of its arguments"),
    "abs": (1, 1, "the distance from 0"),
    "log": (1, 1, "the natural logarithm"),
    "exp": (1, 1, "e to the power of the argument"),
    "sqrt": (1, 1, "the square root"),
    "where": (3, 3, "where(condition, a, b): a for the jobs that meet the condition, b for the others"),
}
"""Function -> fewest and most arguments, and what it gives."""

_ONE: dict[str, Callable[[Column], Column]] = {
    "abs": np.abs,
    "log": _each(math.log),
    "exp": _each(math.exp),
    "sqrt": np.sqrt,
}
_MANY: dict[str, Callable[[Column, Column], Column]] = {"min": np.minimum, "max": np.maximum}


def _number(node: ast.expr) -> Callable[[Columns], Column]:
    """How to compute a numeric expression."""
    match node:
        case ast.Constant(value=value):
            constant = _constant(node, value)
            return lambda columns: constant
        case ast.Name(id=name):
            return lambda columns: columns(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _number(operand)
            return lambda columns: -inner(columns)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _number(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            operate, first, second = _ARITHMETIC[type(op)], _number(left), _number(right)
            return lambda columns: operate(first(columns), second(columns))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return _call(node, name, arguments)
        case _:
            raise FormulaError(f"{_shown(node)} is not allowed here; {_explained(node)}")


def _call(node: ast.expr, name: str, arguments: Sequence[ast.expr]) -> Callable[[Columns], Column]:
    least, most, _ = FUNCTIONS[name]
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise FormulaError(f"{_shown(node)}: {name} takes {wanted} arguments, not {len(arguments)}")
    if name == "where":
        condition, yes, no = _condition(arguments[0]), _number(arguments[1]), _number(arguments[2])
        return lambda columns: np.where(condition(columns), yes(columns), no(columns))
    inner = [_number(argument) for argument in arguments]
    if name in _MANY:
        combine = _MANY[name]
        return lambda columns: reduce(combine, [one(columns) for one in inner])
    function = _ONE[name]
    return lambda columns: function(inner[0](columns))


def _condition(node: ast.expr) -> Callable[[Columns], NDArray[np.bool_]]:
    """How to compute what `where` decides on."""
    match node:
        case ast.Compare(ops=[op]) if name := _of_text(node):
            is_equal = isinstance(op, ast.Eq)
            return lambda columns: (columns(name) == 1) == is_equal
        case ast.Compare(left=left, ops=ops, comparators=rights) if all(type(op) in _COMPARISONS for op in ops):
            sides = [_number(side) for side in (left, *rights)]
            tests = [_COMPARISONS[type(op)] for op in ops]
            return lambda columns: reduce(
                np.logical_and,
                [test(sides[k](columns), sides[k + 1](columns)) for k, test in enumerate(tests)],
            )
        case ast.BoolOp(op=op, values=values):
            combine = np.logical_and if isinstance(op, ast.And) else np.logical_or
            parts = [_condition(value) for value in values]
            return lambda columns: reduce(combine, [part(columns) for part in parts])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _condition(operand)
            return lambda columns: np.logical_not(inner(columns))
        case _:
            raise FormulaError(f"{_shown(node)} is no condition; compare two numbers, such as gpus > 4")


def _of_text(node: ast.Compare) -> str | None:
    """The factor that says whether an attribute is a text, where the node asks for just that."""
    match node:
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=str(text))]
        ):
            pass
        case ast.Compare(
            left=ast.Constant(value=str(text)), ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Name(id=name)]
        ):
            pass
        case _:
            return None
    return text_factor(name, text) if name.startswith(ATTRIBUTE_PREFIX) and name != ATTRIBUTE_PREFIX else None


def _constant(node: ast.expr, value: object) -> Column:
    if isinstance(value, str):
        raise FormulaError(f"{_shown(node)} is not a number; texts are for where(attr_kind == 'training', a, b)")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormulaError(f"{_shown(node)} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise FormulaError(f"{_shown(node)} is too large")
    return np.array([number])


def _shown(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _explained(node: ast.expr) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return f"functions are {', '.join(FUNCTIONS)}" if name not in FUNCTIONS else "name no arguments"
        case ast.Compare() | ast.BoolOp():
            return "compare inside where(condition, a, b)"
        case ast.BinOp(op=ast.Pow()):
            return "multiply, or use exp and log"
        case _:
            return "use numbers, factors, + - * / and functions"


# --- trying out ---------------------------------------------------------------------------------------------


def _probe(formula: Formula) -> None:
    """Try the formula on jobs at the edges of what can occur."""
    rows = list(_probe_rows(formula.names))
    columns = {name: np.array([row[name] for row in rows]) for name in formula.names}
    for term in formula.terms:
        with np.errstate(all="ignore"):
            values = np.broadcast_to(term.compute(columns.__getitem__), (len(rows),))
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            row = rows[int(wrong[0])]
            case = ", ".join(f"{name} = {row[name]:g}" for name in formula.names if name in term.text)
            raise FormulaError(
                f"{term.text} has no finite value{' when ' if case else ''}{case}; "
                "guard it with max(...), where(...) or log(1 + ...)"
            )


def _probe_rows(names: Sequence[str]) -> Iterator[Mapping[str, float]]:
    """All factors at their least, usual and largest value together, then each alone at its edges."""
    probes = {name: values for name in names if (values := probe_values(name)) is not None}
    for k in range(3):
        yield {name: probes[name][k] for name in names}
    for edge in names:
        for k in (0, 2):
            yield {name: probes[name][k if name == edge else 1] for name in names}
