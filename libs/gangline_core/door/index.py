"""Derived for the door and the order: names in use, jobs put first, groups with settings of their own kind."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from gangline_core.groups import BudgetMode, Group, User, user_key
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.spec import JobSpec

Answer = TypeVar("Answer")
Marked = TypeVar("Marked", str, JobId)


class DoorIndex:
    """What would otherwise have to be looked for among all jobs and groups."""

    def __init__(self) -> None:
        """Nothing known yet."""
        self.names: dict[tuple[str, str], dict[JobId, None]] = {}
        """Unfinished jobs by (user_key, name), oldest first; more than one only with singletons."""
        self.namesakes: dict[tuple[str, str], dict[JobId, None]] = {}
        """The same by (user, name), whatever the group."""
        self.dated: dict[str, dict[JobId, None]] = {}
        """Unfinished jobs that have a deadline, per pool: one that is held or suspended reaches no gate."""
        self.topped: dict[str, dict[JobId, None]] = {}
        """Waiting jobs that somebody put first, per pool."""
        self.lenders: dict[str, None] = {}
        """Groups that do not lend all of their guarantee."""
        self.safe_groups: dict[str, None] = {}
        """Groups whose budget must hold all that starts."""
        self.closing_groups: dict[str, None] = {}
        """Groups that are removed when their last job has ended."""
        self.next_renewal_ms = 0
        """When the next budget begins anew; 0 when none ever does."""
        self.closing_users: dict[str, None] = {}
        """The same for members, by user_key."""
        self.remembered: dict[Hashable, Any] = {}
        """What was worked out of the groups alone, by what was asked; forgotten when a group changes."""

    def name(self, job: JobId, spec: JobSpec, *, is_unfinished: bool) -> None:
        """A job has its name until it ends."""
        if spec.deadline_ms:
            _mark(self.dated.setdefault(spec.pool, {}), job, is_unfinished)
        own, all_own = (user_key(spec.group, spec.user), spec.name), (spec.user, spec.name)
        for names, key in ((self.names, own), (self.namesakes, all_own)):
            if is_unfinished:
                names.setdefault(key, {})[job] = None
            elif key in names:
                names[key].pop(job, None)
                if not names[key]:
                    del names[key]

    def put_first(self, job: Job, *, waits: bool) -> None:
        """A job that was put first waits, or no longer does."""
        if job.topped and waits:
            self.topped.setdefault(job.spec.pool, {})[job.id] = None
        elif job.topped:
            self.topped.get(job.spec.pool, {}).pop(job.id, None)

    def put_group(self, group: Group) -> None:
        """A group is new or changed."""
        is_safe = group.budget_gpu_hours > 0 and group.budget_mode == BudgetMode.SAFE
        _mark(self.lenders, group.path, bool(group.lend_limit))
        _mark(self.safe_groups, group.path, is_safe)
        _mark(self.closing_groups, group.path, group.closing)
        self.remembered.clear()

    def remember(self, asked: Hashable, work_out: Callable[[], Answer]) -> Answer:
        """The answer to a question about the groups alone, worked out once; only read it."""
        found: Answer | None = self.remembered.get(asked)
        if found is None:
            found = self.remembered[asked] = work_out()
        return found

    def put_user(self, user: User) -> None:
        """A member is new or changed."""
        _mark(self.closing_users, user_key(user.group, user.name), user.closing)


def _mark(marked: dict[Marked, None], holder: Marked, holds: bool) -> None:
    if holds:
        marked[holder] = None
    else:
        marked.pop(holder, None)
