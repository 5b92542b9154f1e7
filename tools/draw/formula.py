"""Draws docs/formula.md: what the administrator's priority formula may be made of."""

from draw.markdown import code, document, table
from gangline_core.cluster import Policy
from gangline_core.scoring.factors import FACTORS
from gangline_core.scoring.formula import FORMULA_LENGTH_MAX, FUNCTIONS, TERMS_MAX


def page() -> str:
    """The page."""
    factors = ((code(name), factor.doc) for name, factor in FACTORS.items())
    functions = ((code(name), arguments(least, most), doc) for name, (least, most, doc) in FUNCTIONS.items())
    return document(
        "The priority formula",
        "The `weighted` ordering gives each waiting job a score, the value of the pool's formula; higher goes first. "
        "The formula is checked when it is set: an unknown name, a division by zero or a value that is not finite "
        "for some possible job is refused with the place and the reason. Each summand is one *term*; its value for "
        "each job is kept in the log and shown by `gangline why`.",
        f"The default is {code(Policy().formula)}. See it with `gangline policy`; `gangline policy set --help` says "
        "how to change and how to try it.",
        "## Factors",
        table(("Factor", "Meaning"), factors),
        "Besides, `attr_<name>` is the job's own attribute of that name when it is a number, and 0 otherwise. Inside "
        "`where` it may also be compared with a text: `where(attr_kind == 'inference', 100, 0)` puts inference first. "
        "Texts are compared letter by letter, with `==` and `!=` only.",
        "## Operators and functions",
        "Numbers, `+ - * /`, parentheses; inside `where` also `< <= > >= == != and or not`.",
        table(("Function", "Arguments", "Gives"), functions),
        "## Limits",
        f"At most {FORMULA_LENGTH_MAX} characters and {TERMS_MAX} terms. Scores are kept in millionths, rounded half "
        "to even, so that the same log gives the same order on every machine. Whatever the formula says, a job that "
        "has waited longer than the policy's `starvation_s` goes before everything younger, on the policy's "
        "`starvation_percent` of the pool, and every tie is broken by the time of queueing, then by the id.",
    )


def arguments(least: int, most: int) -> str:
    """How many arguments a function takes."""
    return str(least) if least == most else f"{least} to {most}"
