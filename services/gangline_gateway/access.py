"""Who may see and do what: pure rules over a caller and the folded groups.

- admin: everything.
- readonly: sees everything, or its groups' subtrees when it has groups; changes nothing.
- head: sees and steers all jobs of its groups' subtrees, divides their quota among what is below.
- user: sees and steers its own jobs in its own groups. A user named in a group's `heads` is head of that group too.

A token without groups never means "everybody's": it means nothing, except for admin and readonly. What a caller may not
see is answered exactly like what does not exist.
"""

from enum import StrEnum

from msgspec import Struct

from gangline_core.door.arrays import lookup
from gangline_core.groups import ancestors
from gangline_core.job import Job
from gangline_core.spec import JobSpec
from gangline_core.state import State
from gangline_wire.problem import FieldError


class Role(StrEnum):
    """What a token lets its bearer be."""

    USER = "user"
    HEAD = "head"
    ADMIN = "admin"
    READONLY = "readonly"


class Caller(Struct, frozen=True):
    """Who calls: what the token says."""

    user: str
    role: Role
    name: str
    groups: tuple[str, ...] = ()
    digest: str = ""
    expires_ms: int = 0
    is_foreign: bool = False
    """True when an identity provider says so, and not a token of ours."""
    keys: int = 0
    """Which of the provider's sets of keys the token was checked with."""

    @property
    def is_admin(self) -> bool:
        """True for administrators."""
        return self.role == Role.ADMIN

    @property
    def sees_all(self) -> bool:
        """True for callers that see everything."""
        return self.is_admin or (self.role == Role.READONLY and not self.groups)

    @property
    def may_change(self) -> bool:
        """True when the caller may change anything at all."""
        return self.role != Role.READONLY


def is_head(state: State, caller: Caller, group: str) -> bool:
    """True when the caller leads this group or one above it."""
    if caller.role == Role.HEAD:
        return _within(group, caller.groups)
    if caller.role != Role.USER:
        return False
    own = [path for path in ancestors(group) if path in caller.groups]
    groups = state.kept.groups
    return any(path in groups and caller.user in groups[path].heads for path in own)


def leads_above(state: State, caller: Caller, group: str) -> bool:
    """True when the caller leads a group strictly above this one."""
    return bool(group) and is_head(state, caller, group.rpartition("/")[0])


def sees_job(state: State, caller: Caller, spec: JobSpec) -> bool:
    """True when the caller may know that this job exists."""
    if caller.sees_all:
        return True
    if caller.role == Role.READONLY:
        return _within(spec.group, caller.groups)
    if caller.role == Role.USER and spec.user == caller.user and spec.group in caller.groups:
        return True
    return is_head(state, caller, spec.group)


def visible_job(state: State, caller: Caller, job: int) -> Job | None:
    """The job, when it exists and the caller may know so."""
    found = lookup(state, job)
    return found if found is not None and sees_job(state, caller, found.spec) else None


def submit_barred(state: State, caller: Caller, spec: JobSpec) -> FieldError | None:
    """Why the caller may not submit this job, and the field that is in its way; None when it may."""
    if caller.is_admin:
        return None
    if not caller.may_change:
        return FieldError(path="group", message="a read-only token submits nothing")
    is_own = spec.group in caller.groups
    if (is_own and spec.user == caller.user) or is_head(state, caller, spec.group):
        return None
    if not is_own:
        return FieldError(path="group", message=f'your token does not open group "{spec.group}"')
    return FieldError(path="user", message=f'your token submits for user "{caller.user}" only')


def sees_group(state: State, caller: Caller, group: str) -> bool:
    """True when the caller may see the group's settings and use: its own, what is above, and what it leads."""
    if caller.sees_all or is_head(state, caller, group):
        return True
    if caller.role == Role.READONLY and _within(group, caller.groups):
        return True
    return any(group in ancestors(own) for own in caller.groups)


def sees_user(state: State, caller: Caller, *, group: str, user: str) -> bool:
    """True when the caller may see this user's settings and use."""
    if caller.sees_all or is_head(state, caller, group):
        return True
    if caller.role == Role.READONLY:
        return _within(group, caller.groups)
    return caller.user == user and group in caller.groups


def _within(group: str, roots: tuple[str, ...]) -> bool:
    """True when the group is one of the roots or below one."""
    return any(path in roots for path in ancestors(group))
