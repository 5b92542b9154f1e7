"""Lending: what groups are guaranteed and do not use is lent to others' elastic jobs, and comes back member by member.

After capacity scheduling (Kubernetes scheduler plugins, `ElasticQuota {min, max}`: our guarantee and limit), with whole
members of elastic jobs in place of pods. A job whose group stays within its guarantee takes its members from jobs of
groups that are beyond theirs, whatever their priority; one that is beyond it only from less important jobs of its own
group, and only up to the size it asked for. Whoever gives stays at its smallest size and its group at its guarantee,
which is looked at before each member. Nobody gives anything unless the other then has its members. What is left grows
as under `idle_fill`. Two things are done otherwise than there: members are taken on several machines at once, and what
the machines have beyond the sum of all guarantees is lent as well.
"""

from collections.abc import Iterator

from gangline_core.elasticity.taking import Given, Taking
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.making_room.losses import effective_priority
from gangline_core.spec import ServiceClass


def lending(view: View) -> list[Target]:
    """Bring back what is owed, the most important jobs first; then fill what is idle."""
    taking = Taking(view)
    if view.may_weigh:
        for one in sorted(view.jobs, key=lambda one: (-_priority(view, one), one.job.id)):
            _bring_back(taking, one)
    return taking.with_idle()


def _bring_back(taking: Taking, one: Elastic) -> None:
    """The largest size that the job is owed and can have, with what others have to give for it."""
    for size, is_owed in _wanted(taking, one):
        why = "owed by guarantee" if is_owed else "more important"
        others = f"lent, and owed to job {one.job.id}" if is_owed else f"job {one.job.id} is more important"
        if taking.take(one, size, _steps(taking, one, is_owed=is_owed), why=why, others=others):
            return


def _wanted(taking: Taking, one: Elastic) -> Iterator[tuple[int, bool]]:
    """Sizes above the present one that it may take from others, largest first, and whether by its guarantee."""
    member = taking.member_amounts(one)
    for size in reversed([size for size in one.sizes if size > one.size]):
        asked = {dimension: amount * (size - one.size) for dimension, amount in member.items()}
        if taking.view.table.ledger.within_guarantee(one.job, asked, placed=True):
            yield size, True
        elif size <= one.role.count:
            yield size, False


def _steps(taking: Taking, one: Elastic, *, is_owed: bool) -> Iterator[Given]:
    """Steps down that others may take for it, the least important job first; guarantees are looked at before each."""
    view, group = taking.view, one.job.spec.group
    for other in sorted(view.jobs, key=lambda other: _goes_first(view, other)):
        own = other.job.spec.group
        is_humbler = own == group and _priority(view, other) < _priority(view, one)
        if other.job.id == one.job.id or taking.grows(other) or not (is_humbler or (is_owed and own != group)):
            continue
        for step in taking.steps(other, least=other.sizes[0]):
            if is_owed and not view.table.ledger.over_guarantee(other.job, step.amounts, beneficiary=group):
                break
            yield step


def _priority(view: View, one: Elastic) -> int:
    return effective_priority(view.table.pool.pool, one.job.spec)


def _goes_first(view: View, one: Elastic) -> tuple[bool, int, int, int]:
    """Opportunistic work, then the least important, then the youngest."""
    is_firm = one.job.service_class != ServiceClass.OPPORTUNISTIC
    return is_firm, _priority(view, one), -one.job.started_ms, -one.job.id
