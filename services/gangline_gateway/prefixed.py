"""Output of several tasks in whole lines, each with the task that wrote it before it: `[worker-2] loss 0.31`. Pure.

Of a line that is written over, as progress bars are, there is what stood there last, as on a terminal.
What comes out depends on the messages alone, so whoever takes the stream up again finds the same bytes.
"""

import re

LINE_BYTES_MAX = 64 << 10
"""Of a longer line what is there is given, as if it had ended."""

_TASK = re.compile(r"\d+-(\d+)-(.+)", re.ASCII)
_ESCAPED = re.compile(r"=([0-9A-F]{2})")


class Prefixed:
    """Lines that tasks have begun."""

    def __init__(self) -> None:
        """Nobody wrote anything."""
        self._begun: dict[str, bytes] = {}
        """By subject."""

    def take(self, subject: str, data: bytes, *, is_end: bool) -> bytes:
        """What can be given now that the task has written this."""
        text = self._begun.pop(subject, b"") + data
        head, _, rest = text.rpartition(b"\n")
        if rest and (is_end or len(rest) >= LINE_BYTES_MAX):
            head, rest = text, b""
        elif not rest and text:
            head = text[:-1]
        if rest:
            self._begun[subject] = rest
        return _marked(subject, head) if len(rest) < len(text) else b""

    def rest(self) -> bytes:
        """Lines that have no end yet, as they are."""
        begun, self._begun = self._begun, {}
        return b"".join(_marked(subject, text) for subject, text in begun.items())


def _marked(subject: str, text: bytes) -> bytes:
    mark = f"[{name_of(subject)}] ".encode()
    return b"".join(mark + line.rstrip(b"\r").rpartition(b"\r")[2] + b"\n" for line in text.split(b"\n"))


def name_of(subject: str) -> str:
    """How a task is called beside others of its job: "worker-2", or "worker-2 #3" in a third attempt."""
    task = _ESCAPED.sub(lambda found: bytes.fromhex(found[1]).decode("latin-1"), subject.rpartition(".")[2])
    found = _TASK.fullmatch(task)
    if found is None:
        return task
    return found[2] if found[1] == "1" else f"{found[2]} #{found[1]}"
