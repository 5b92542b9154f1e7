"""How an error is told to a person: the cause, every wrong field with its place, and the next step."""

import re

from gangline_client.errors import ClientError, InputError, ProblemError
from gangline_client.table import tame
from gangline_wire.views import ProblemView

_IN_BATCH = re.compile(r"jobs\[(\d+)\]\.?")


class PlacedProblemError(ProblemError):
    """A refused submit, with where each of its jobs was written."""

    def __init__(self, error: ProblemError, places: list[str]) -> None:
        """The refusal, and one place per job in the order they were sent."""
        super().__init__(error.problem)
        self.places = places


def told(error: ClientError) -> list[str]:
    """The error in lines for people."""
    lines, step = [f"gangline: {tame(str(error))}"], error.next_step
    if isinstance(error, InputError) and error.faults:
        lines = [f"gangline: {tame(error.cause)}", *(f"  {tame(fault)}" for fault in error.faults)]
    if isinstance(error, ProblemError):
        places = error.places if isinstance(error, PlacedProblemError) else []
        details = _refusals(error.problem, places) or _fields(error.problem, places)
        if details:
            lines, step = [f"gangline: {tame(error.problem.title)}", *details], ""
        if error.problem.status >= 500 and error.problem.request_id:
            lines.append(f"  request id: {tame(error.problem.request_id)}")
    return [*lines, f"Next: {step}"] if step else lines


def _fields(problem: ProblemView, places: list[str]) -> list[str]:
    lines: list[str] = []
    for error in problem.errors:
        place, path = _placed(error.path, places)
        lines.append("  " + ": ".join(tame(part) for part in (place, path, error.message) if part))
    return lines


def _refusals(problem: ProblemView, places: list[str]) -> list[str]:
    lines: list[str] = []
    for refusal in problem.refusals:
        place = places[refusal.index] if refusal.index < len(places) else ""
        reason = refusal.reason
        lines.append("  " + ": ".join(tame(part) for part in (place, reason.code, reason.sentence) if part))
        if reason.hint:
            lines.append(f"    {tame(reason.hint)}")
    return lines


def _placed(path: str, places: list[str]) -> tuple[str, str]:
    """The file a path of a batch points into, and the path inside that job."""
    match = _IN_BATCH.match(path)
    if match is None or int(match[1]) >= len(places):
        return "", path
    return places[int(match[1])], path[match.end() :]
