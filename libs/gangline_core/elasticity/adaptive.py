"""Adaptive, the default: jobs that report how they learn are weighed by goodput, all others grow into what is idle.

A job that tells step times and the statistics of its gradients has said how well it would use every size, so it takes
part in Pollux's objective (see `pollux`), and may shrink for another that would use the GPUs better. A job that tells
nothing of the kind is never shrunk by a policy; it grows as under `idle_fill`, into what those leave.
"""

from msgspec.structs import replace

from gangline_core.elasticity.idle_fill import idle_fill
from gangline_core.elasticity.pollux import goodput
from gangline_core.elasticity.room import more
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.room.holds import placed_amounts


def adaptive(view: View) -> list[Target]:
    """Goodput for those that have a model of their learning, then idle fill for the others."""
    modelled = {one.job.id: one for one in view.jobs if has_model(one)}
    weighed = goodput(replace(view, jobs=tuple(modelled.values()))) if modelled else []
    for target in weighed:
        one = modelled[target.job.id]
        if target.size > one.size:
            _book(view, one, target.size - one.size)
    others = tuple(one for one in view.jobs if one.job.id not in modelled)
    filled = idle_fill(replace(view, jobs=others)) if others else []
    return sorted((*weighed, *filled), key=lambda target: target.job.id)


def _book(view: View, one: Elastic, count: int) -> None:
    """What was given by goodput is not idle any more, as far as it is free already."""
    tasks = more(view.table, view.table.room, one.job, one.role, count=count)
    if tasks is not None:
        view.table.grow(one.job, tasks, placed_amounts(view.state, tasks))


def has_model(one: Elastic) -> bool:
    """True when the job reported step times and gradient statistics, and works on whole GPUs."""
    said = one.progress
    told = said is not None and bool(said.points) and said.grad_sqr >= 0 and said.grad_var >= 0
    return told and bool(one.role.resources.whole_gpus)
