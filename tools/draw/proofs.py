"""Draws docs/proofs.md: every sentence that the dollhouse proves, who checks it, and how often each fault strikes."""

from dollhouse.promises import CONTRACT, PROMISES, Promise
from dollhouse.strikes import kept
from dollhouse.struck import FAULTS
from draw.markdown import code, document, table


def page() -> str:
    """The page."""
    counted = kept()
    return document(
        "What the dollhouse proves",
        "See [dollhouse.md](dollhouse.md). A test checks that every function, mutant and test named here exists.",
        "## Sentences",
        "Each mutant takes a fence or a check out of the production code; `tests/sim/test_seed_mutants.py` names for "
        "each of them a seed whose random run breaks a sentence then, and plays it.",
        table(("Sentence", "Of cases", "Checked by", "After", "Taken away to see that"), map(_sentence, PROMISES)),
        "## JetStream's contract",
        "Each test runs on the dollhouse's bus as one server and as three, on one real nats-server and on three.",
        table(("Clause", "Held by"), ((clause, ", ".join(map(code, tests))) for clause, tests in CONTRACT.items())),
        "## Faults",
        f"Counted in the {counted.seeds} runs of seeds {counted.first} to {counted.first + counted.seeds - 1}: in how "
        "many of them a fault was drawn, and in how many it truly struck; one may follow from others. Count anew with "
        "`PYTHONPATH=tools python -m dollhouse.strikes FIRST SEEDS`.",
        table(
            ("Fault", "Drawn as", "Strikes when", "Drawn in", "Struck in"),
            (
                (name, ", ".join(map(code, one.drawn)), one.counts, str(counted.drawn[name]), str(counted.struck[name]))
                for name, one in FAULTS.items()
            ),
        ),
    )


def _sentence(promise: Promise) -> tuple[str, ...]:
    checks, after = promise.checks, list(dict.fromkeys(promise.checks.values()))
    told = "; ".join(
        one if len(after) == 1 else f"{one}: {', '.join(code(name) for name, when in checks.items() if when == one)}"
        for one in after
    )
    return (
        promise.says,
        promise.oracle,
        ", ".join(map(code, checks)) if len(after) == 1 else "",
        told,
        ", ".join(promise.mutants),
    )
