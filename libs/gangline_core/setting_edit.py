"""One change of a setting as it is remembered: who, when, why, and what became of what."""

from msgspec import Struct


class SettingEdit(Struct, frozen=True, omit_defaults=True, gc=False):
    """What one fact did to one setting; texts of values are JSON, empty for what there was not."""

    kind: str
    """As of `settings.document.Change`, or "token"."""
    name: str = ""
    """A group's path, a user_key, a token's digest, or the name; the price list has none."""
    act: str = ""
    """"made", "changed" or "removed"."""
    by: str = ""
    why: str = ""
    version: int = 0
    """Of the setting after it; of one that was removed, its last."""
    changes: tuple[tuple[str, str, str], ...] = ()
    """Field (of amounts with the dimension, such as limit.gpu_milli), before, after."""
    pool: str = ""
    groups: tuple[str, ...] = ()
    """Whose it is: the group itself, a user's, or those that a token opens."""
    number: int = 0
    """Counted over all edits of the log, so that a later one has a higher number."""
    at: int = 0
    """In ms."""
    seq: int = 0
    """Log sequence of the message it was in."""
