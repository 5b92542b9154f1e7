"""Guarantees of single GPU models, for jobs that name several models or none.

Such a job counts for a model only once it is placed, so before that no guarantee of a model seems to speak for it. Yet
on that model it would be within the guarantee: so it is looked at as if it asked for that model alone, and what it then
takes back is there.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from gangline_core.groups import ancestors
from gangline_core.job import Job
from gangline_core.limits.quota import Ledger
from gangline_core.limits.rungs import MODEL_PREFIX
from gangline_core.room.cards import least_milli
from gangline_core.spec import Role, smallest_size
from gangline_core.state import State


def owed_models(state: State, ledger: Ledger, job: Job, amounts: Mapping[str, int]) -> tuple[str, ...]:
    """Models on which the job, asking for these amounts, would be within a guarantee of its group; preferred first."""
    return tuple(
        model
        for model in open_models(state, job)
        if ledger.within_guarantee(job, {**amounts, f"{MODEL_PREFIX}{model}": _milli_on(state, job, model)})
    )


def narrowed(job: Job, model: str) -> Job:
    """The job as if each role that may be on this model asked for it alone."""
    roles = tuple(
        replace(role, resources=replace(role.resources, gpu_models=(model,))) if _is_open(role, model) else role
        for role in job.spec.roles
    )
    return replace(job, spec=replace(job.spec, roles=roles))


def open_models(state: State, job: Job) -> Iterator[str]:
    """Guaranteed models that some role of the job leaves open, in its order of preference."""
    groups = (state.kept.groups.get(path) for path in ancestors(job.spec.group))
    promised = {name.lower() for group in groups if group is not None for name in group.guaranteed}
    models = sorted(name.removeprefix(MODEL_PREFIX) for name in promised if name.startswith(MODEL_PREFIX))
    if models:
        wished = [model.lower() for role in job.spec.roles for model in role.resources.gpu_models]
        models.sort(key=lambda model: (wished.index(model) if model in wished else len(wished), model))
    return (model for model in models if any(_is_open(role, model) for role in job.spec.roles))


def _is_open(role: Role, model: str) -> bool:
    need = role.resources
    accepted = [own.lower() for own in need.gpu_models]
    return need.wants_gpu and len(accepted) != 1 and model in (accepted or [model])


def _milli_on(state: State, job: Job, model: str) -> int:
    """GPU thousandths that the job at its smallest has on the model, if all that may be is there."""
    there, inventory = 0, state.inventory(job.spec.pool)
    for role in job.spec.roles:
        names = [own.lower() for own in role.resources.gpu_models]
        if _is_open(role, model) or names == [model]:
            there += smallest_size(role) * least_milli(inventory, job.spec, role, model=model)
    return there
