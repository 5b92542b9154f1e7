"""What a message of a task's output carries beside its bytes: where it begins, and whether it is the last.

The body is what the task wrote, as it wrote it. The messages of one subject (`subjects.output(job, task)`) are in the
order of their bytes. The last one carries `END` and may be empty; nothing follows it, so a follower stops there.
"""

from collections.abc import Mapping

OFFSET = "Gangline-Offset"
"""Bytes that the task had written before the first byte of this message; a jump is where bytes were left out."""
END = "Gangline-End"
"""Present on the last message; its value is the exit code, or "-" when there is none."""


def headers(offset: int, *, end: str = "") -> dict[str, str]:
    """Headers of a message that begins at this byte; `end` makes it the last one."""
    return {OFFSET: str(offset), END: end} if end else {OFFSET: str(offset)}


def is_end(found: Mapping[str, str] | None) -> bool:
    """True when these are the headers of a task's last message."""
    return found is not None and END in found
