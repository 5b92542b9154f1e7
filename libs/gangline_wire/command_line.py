"""How every program of ours reads its command line and writes its answer.

An empty text is told, and not taken for something left out: a shell gives one for a variable that is not set. Taken
for nothing it means no limit where one was meant, the newest of all jobs, the folder one stands in, or all addresses of
the machine. And no letter in anybody's name ends a command, whatever the terminal can show.
"""

import argparse
import codecs
import io
import sys
from typing import Any

ESCAPED = "gangline.escaped"


class Parser(argparse.ArgumentParser):
    """A parser that refuses empty texts; those of its verbs do as well."""

    def may_be_empty(self, action: argparse.Action) -> bool:
        """True where an empty text means itself."""
        del action
        return False

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # What follows a verb is looked at by the verb's own parser.
        is_verb = isinstance(action, argparse._SubParsersAction)
        if "" in arg_strings and not is_verb and not self.may_be_empty(action):
            raise argparse.ArgumentError(action, "is empty; is a variable of the shell not set?")
        return super()._get_values(action, arg_strings)


def ready_streams() -> None:
    """Have the process write whatever letters there are, and to nobody where its output is closed.

    A terminal that does not know a letter shows it as JSON writes it, so that nobody's name ends another one's command.
    """
    codecs.register_error(ESCAPED, _escaped)
    sys.stdout = sys.stdout or Nobody()
    sys.stderr = sys.stderr or Nobody()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=ESCAPED)


class Nobody(io.TextIOBase):
    """Where what is written to a closed output goes."""

    def write(self, text: str) -> int:
        """Nobody reads it."""
        return len(text)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = zip(units[::2], units[1::2], strict=True)
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in pairs), error.end
