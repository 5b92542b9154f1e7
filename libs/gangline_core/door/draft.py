"""What requests judged together have taken so far on top of the state, and what was looked up for them."""

from functools import partial

from msgspec import Struct, field

from gangline_core.door.array_record import array_size
from gangline_core.door.arrays import numbers_taken
from gangline_core.door.members import Members
from gangline_core.door.rules import Rules, make_rules
from gangline_core.groups import holders, user_key
from gangline_core.ids import JobId
from gangline_core.limits.accounting import Spent, spent
from gangline_core.spec import JobSpec
from gangline_core.state import State, count


class Draft(Struct):
    """What requests judged together have taken so far, on top of the state."""

    admitted: int = 0
    names: dict[tuple[str, str], JobId] = field(default_factory=dict)
    submits: dict[str, tuple[JobId, ...]] = field(default_factory=dict)
    entered: dict[str, int] = field(default_factory=dict)
    """Jobs admitted per holder, elements of arrays one by one."""
    sent: dict[str, int] = field(default_factory=dict)
    """Submissions per holder; an array is one."""
    rules: dict[tuple[str, str, str], Rules] = field(default_factory=dict)
    """By group, user and who submits."""
    members: Members | None = None
    used: Spent | None = None

    def enter(self, job: JobId, spec: JobSpec) -> None:
        """Count a job as admitted."""
        self._count(spec, 1)
        self.names[user_key(spec.group, spec.user), spec.name] = job

    def leave(self, spec: JobSpec) -> None:
        """Take back the job entered last."""
        self._count(spec, -1)
        self.names.pop((user_key(spec.group, spec.user), spec.name), None)

    def _count(self, spec: JobSpec, sign: int) -> None:
        self.admitted += sign * numbers_taken(spec)
        for holder in holders(spec.group, spec.user):
            count(self.entered, holder, sign * elements(spec))
            count(self.sent, holder, sign)

    def rules_of(self, state: State, *, group: str, user: str, by: str, at: int) -> Rules:
        """What holds for this user's jobs in the group when `by` hands them in; remembered."""
        key = (group, user, by)
        found = self.rules.get(key)
        if found is None:
            found = self.rules[key] = make_rules(
                state,
                partial(self.members_of, state),
                partial(self.spent_at, state, at),
                group=group,
                user=user,
                by=by,
            )
        return found

    def members_of(self, state: State) -> Members:
        """Who may submit for whom; looked up once."""
        if self.members is None:
            self.members = Members(state)
        return self.members

    def spent_at(self, state: State, at: int) -> Spent:
        """What was used until then; added up once."""
        if self.used is None:
            self.used = spent(state, at)
        return self.used


def elements(spec: JobSpec) -> int:
    """How many jobs it is for the caps: an array counts by its elements."""
    return array_size(spec.array) if spec.array is not None else 1
