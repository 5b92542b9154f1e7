"""May a gang that gives up members begin anew where the others are?

Not on a machine that is closed to it by now, nor where its budget does not hold a whole further run or is used up, nor
where its deadline would be too near.
"""

from collections.abc import Iterable

from gangline_core.elasticity.anew import of_budget
from gangline_core.elasticity.view import begins_again
from gangline_core.job import Job, Task
from gangline_core.spec import ResizeKind, selector_of, tolerations_of
from gangline_core.table import Table


def can_begin_again(table: Table, job: Job, members: Iterable[Task]) -> bool:
    """True for members that need not begin anew, and where each one's node takes new tasks like it, and it may cost."""
    if job.spec.elastic.kind != ResizeKind.RESTART:
        return True
    if not begins_again(table.state, job, table.now):
        return False
    if table.ledger.fault(job, of_budget(table, job)) is not None:
        return False
    layout = table.room.layout
    open_to = {
        role.name: layout.eligible(selector_of(job.spec, role), tolerations_of(job.spec, role))
        for role in job.spec.roles
    }
    return all(task.node in layout.row and bool(open_to[task.role][layout.row[task.node]]) for task in members)
