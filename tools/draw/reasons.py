"""Draws docs/reasons.md: every reason a job waits, is refused or ends, with its sentence, numbers and hint."""

import ast
import inspect
import string

from draw.markdown import code, document, table
from gangline_core.reason_words import RULES
from gangline_core.reasons import HINTS, SENTENCES, ReasonCode


def page() -> str:
    """The page."""
    blocks = []
    for title, codes in chapters().items():
        blocks.append(f"## {title[:1].upper()}{title[1:]}")
        blocks.append(table(("Code", "Sentence", "Numbers", "What to do"), map(row, codes)))
    return document(
        "Reasons",
        "Every job that is not running carries exactly one of these codes, with numbers. The API, `gangline why` and "
        "`gangline queue` show the same code, sentence and hint. Names in braces are the numbers: `gangline why`, "
        "`gangline queue` and their routes count them anew, a job's own record (`gangline show`, `GET /v1/jobs/{id}`) "
        "has those with which it was last kept back, for a round is written down when it changes something.",
        *blocks,
        "## Rules",
        "By which rule a job makes way; its owner reads it behind the name of the rule (`{rule}`).",
        table(("Rule", "Because"), ((code(rule), why) for rule, why in RULES.items())),
    )


def chapters() -> dict[str, list[ReasonCode]]:
    """Codes by the comment that stands above them in the enumeration."""
    lines = inspect.getsource(ReasonCode).splitlines()
    found: dict[str, list[ReasonCode]] = {}
    title = "reasons"
    for line in (line.strip() for line in lines[1:]):
        if line.startswith("#"):
            title = line.lstrip("# ")
        elif " = " in line and not line.startswith('"'):
            found.setdefault(title, []).append(ReasonCode(ast.literal_eval(line.partition(" = ")[2])))
    return found


def row(reason: ReasonCode) -> tuple[str, ...]:
    """One code's line of the table."""
    numbers = dict.fromkeys(name for _, name, _, _ in string.Formatter().parse(SENTENCES[reason]) if name)
    return (code(reason), SENTENCES[reason], ", ".join(map(code, numbers)), HINTS.get(reason, ""))
