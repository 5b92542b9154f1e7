"""What is to be done where nodes that are closed keep a job out, and not what it asks for or who has it."""

from collections.abc import Mapping

SICK_HINT = (
    "See what ails the sick ones with `gangline nodes`; they are tried again by themselves, or at once when an "
    "administrator says `gangline resume NODE`."
)
"""Where machines would do that are closed for what was seen to fail on them."""
AWAY_HINT = "Wait until they are back or opened again; why they are not, `gangline nodes` tells."
"""Where all are lost or drained, and nothing that the job asks for keeps it from any of them."""

TOO_FEW_HINT = (
    "The machines that take work are too few, however many jobs end: `gangline nodes` tells which take none, and why. "
    "Or ask for fewer GPUs, or accept more models."
)
"""Where the suitable GPUs of all nodes that take work come to less than the job needs."""


def of_closed(numbers: Mapping[str, int | str]) -> str:
    """What to do, by how many nodes are closed for which cause; empty where it is the job that asks for others."""
    if numbers.get("sick"):
        return SICK_HINT
    is_away = bool(numbers.get("drained") or numbers.get("lost"))
    return AWAY_HINT if is_away and not (numbers.get("tainted") or numbers.get("unmatched")) else ""


def too_few(numbers: Mapping[str, int | str]) -> bool:
    """Whether the suitable GPUs that take work, free or not, come to less than is needed."""
    return "total" in numbers and float(numbers["total"]) < float(numbers.get("needed", 0))
