"""What the HTTP API answers about who changed which setting."""

from typing import Any

from gangline_wire.views_jobs import View


class ValueView(View, frozen=True):
    """One value that an edit changed, in the words of the policy file."""

    field: str
    """Such as limit.gpus; of the price list the GPU model."""
    before: Any = None
    """None for what there was not."""
    after: Any = None


class SettingEditView(View, frozen=True):
    """One edit of a setting: who, when, why, and what became of what."""

    number: int
    """A later edit has a higher one."""
    at_ms: int
    kind: str
    """"group", "user", "class", "pool", "policy", "prices", "window" or "token"."""
    name: str
    """A group's path (the root's is empty), group:user, the name; of a token its name."""
    act: str
    """"made", "changed" or "removed"."""
    by: str
    why: str = ""
    version: int = 0
    """Of the setting after the edit; 0 for tokens, which have none."""
    changes: tuple[ValueView, ...] = ()
    pool: str = ""
    """Of a pool, a policy or a window."""
    groups: tuple[str, ...] = ()
    """The group, the user's group, or the groups that a token opens."""
    seq: int = 0
    """Log sequence of the edit."""


class SettingEditsView(View, frozen=True):
    """Edits of settings, the latest first; `next` is the cursor of the following page, empty at the end."""

    edits: tuple[SettingEditView, ...] = ()
    next: str = ""
    kept: int = 0
    """So many edits of each setting are remembered; the archive of the log has all."""
