"""What is to be done where no node takes a job since nodes are closed, and not since it asks for others."""

from collections.abc import Mapping

SICK_HINT = (
    "See what ails the sick ones with `gangline nodes`; they are tried again by themselves, or at once when an "
    "administrator says `gangline resume NODE`."
)
"""Where machines would do that are closed for what was seen to fail on them."""
AWAY_HINT = "Wait until they are back or opened again; why they are not, `gangline nodes` tells."
"""Where all are lost or drained, and nothing that the job asks for keeps it from any of them."""


def of_closed(numbers: Mapping[str, int | str]) -> str:
    """What to do, by how many nodes are closed for which cause; empty where it is the job that asks for others."""
    if numbers.get("sick"):
        return SICK_HINT
    is_away = bool(numbers.get("drained") or numbers.get("lost"))
    return AWAY_HINT if is_away and not (numbers.get("tainted") or numbers.get("unmatched")) else ""
