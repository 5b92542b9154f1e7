"""What a waiting job is owed by its group's guarantee, in words: is room taken back for it, or only lent to it?"""

from gangline_core.groups import ancestors
from gangline_core.job import Job
from gangline_core.limits.dimension_names import shown
from gangline_core.limits.owed_models import open_models, owed_models
from gangline_core.limits.quota import JOBS, Ledger, job_amounts, minimum_sizes
from gangline_core.limits.rungs import MODEL_PREFIX, lowered
from gangline_core.room.cards import with_cards
from gangline_core.spec import ServiceClass
from gangline_core.state import State


def dues_note(state: State, job: Job) -> str | None:
    """One sentence for a job that waits for room; None when guarantees say nothing about it."""
    groups = state.kept.groups
    if not state.pool_of(job).policy.preemption or not any(group.guaranteed for group in groups.values()):
        return None
    if job.spec.service_class == ServiceClass.OPPORTUNISTIC:
        return "It is opportunistic: no guarantee counts for it, and nobody has to leave for it."
    asked = lowered(job_amounts(job.spec, minimum_sizes(job.spec)))
    wanted = dict(with_cards(state.inventory(job.spec.pool), job.spec, asked))
    ledger = Ledger(state)
    if ledger.within_guarantee(job, wanted) or owed_models(state, ledger, job, wanted):
        return "It is within its group's guarantee, so lent room is taken back for it as far as that lets it start."
    wanted |= {f"{MODEL_PREFIX}{model}": 1 for model in open_models(state, job)}
    for path in ancestors(job.spec.group):
        promised = groups[path].guaranteed if path in groups else {}
        for dimension, amount in promised.items():
            if wanted.get(dimension.lower()) and dimension != JOBS:
                label, whole = shown(dimension.lower(), amount)
                used = shown(dimension.lower(), ledger.used(path, dimension.lower()))[1]
                return (
                    f"Group {path or '(all)'} uses {used} of the {whole} {label} it is guaranteed; what goes beyond a "
                    "guarantee is only lent, and nobody of equal priority has to leave for it."
                )
    return (
        "Its group has no guarantee, so it runs on what others leave, and nobody of equal priority has to leave for it."
    )
