"""How every program of ours reads its command line: an empty text is told, and not taken for something left out.

A shell gives an empty text for a variable that is not set. Taken for nothing it means no limit where one was meant,
the newest of all jobs, the folder one stands in, or all addresses of the machine.
"""

import argparse
from typing import Any


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
