"""How amounts and numbers in settings are checked."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from gangline_core.limits.dimension_names import shown
from gangline_core.limits.quota import JOBS
from gangline_core.limits.rungs import DEVICE_PREFIX, MODEL_PREFIX

DIMENSIONS = ("gpu_milli", "gpu_memory_mib", "cpu_milli", "memory_mib", JOBS)
"""What can be limited, besides GPUs of one model and named devices."""
PREFIXES = (MODEL_PREFIX, DEVICE_PREFIX)
AMOUNT_MAX = 10**15
LEVEL_MAX = 1_000_000
DIMENSIONS_MAX = 64
DIMENSION_CHARS_MAX = 128


class Problem(Struct, frozen=True):
    """Why a change is refused: `kind` is "not_found", "conflict" or "invalid"; `field` is the path of what is wrong."""

    kind: str
    message: str
    field: str = ""


def amounts_problem(field: str, amounts: Mapping[str, int]) -> Problem | None:
    """What is wrong with amounts by dimension; None when nothing is."""
    if len(amounts) > DIMENSIONS_MAX:
        return Problem("invalid", f"has {len(amounts)} entries; at most {DIMENSIONS_MAX} are allowed", field)
    for dimension, amount in amounts.items():
        if len(dimension) > DIMENSION_CHARS_MAX:
            return Problem("invalid", f"must be at most {DIMENSION_CHARS_MAX} characters", f"{field}.{dimension[:40]}")
        is_named = any(dimension.startswith(prefix) and dimension != prefix for prefix in PREFIXES)
        if dimension not in DIMENSIONS and not is_named:
            known = ", ".join((*DIMENSIONS, f"{MODEL_PREFIX}<MODEL>", f"{DEVICE_PREFIX}<NAME>"))
            return Problem("invalid", f"{dimension!r} is none of {known}", f"{field}.{dimension}")
        problem = range_problem(f"{field}.{dimension}", amount, 0, AMOUNT_MAX)
        if problem is not None:
            return problem
    if len({dimension.lower() for dimension in amounts}) < len(amounts):
        return Problem("invalid", "names one GPU model or device twice; upper and lower case are the same", field)
    return None


def range_problem(field: str, value: int, least: int, most: int) -> Problem | None:
    """What is wrong with a number; None when nothing is."""
    if least <= value <= most:
        return None
    return Problem("invalid", f"is {value}; it must be from {least} to {most}", field)


def sums(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """All of these together, models and devices without regard to case."""
    found: dict[str, int] = {}
    for one in amounts:
        for dimension, amount in one.items():
            found[dimension.lower()] = found.get(dimension.lower(), 0) + amount
    return found


def folded(amounts: Mapping[str, int]) -> dict[str, int]:
    """The same amounts, models and devices in lower case."""
    return sums([amounts])


def said(dimension: str, amount: int) -> str:
    """An amount as a user would say it."""
    label, number = shown(dimension.lower(), amount)
    return f"{number} {label}"


def named(path: str) -> str:
    """A group as a user would call it."""
    return f"group {path}" if path else "the whole cluster"
