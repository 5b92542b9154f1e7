"""What a job counts with at its smallest below its limits, before it is placed."""

from collections.abc import Mapping

from gangline_core.job import Job
from gangline_core.limits.quota import Ledger
from gangline_core.limits.rungs import lowered
from gangline_core.room.cards import is_open, with_cards
from gangline_core.state import State


def limited(ledger: Ledger, job: Job) -> set[str]:
    """Every dimension that a limit above the job counts, or of which somebody keeps some."""
    rungs = ledger.rungs(job)
    return {
        *(name for rung in rungs for name in rung.limit),
        *(reserve.dimension for rung in rungs for reserve in rung.reserves),
    }


def least_counted(
    state: State, ledger: Ledger, job: Job, amounts: Mapping[str, int], *, model: str = ""
) -> Mapping[str, int]:
    """These amounts, which the job names, with the least that its GPUs count with on cards of one model or any.

    Only where one of its limits counts that: to ask what cards there are is dear.
    """
    least = lowered(amounts)
    if not any(is_open(job.spec, name) for name in limited(ledger, job)):
        return least
    return with_cards(state.inventory(job.spec.pool), job.spec, least, model=model)
