"""How the words of a command line become arguments, and what `--help` says."""

import argparse
import re
import textwrap
from collections.abc import Sequence
from typing import NoReturn

from gangline_client.of_others import no_flag_of_run, no_flag_of_submit, no_verb
from gangline_client.verbs import CHAPTERS, HANDOVERS, VERBS, Verb
from gangline_wire import command_line

TEXT_WIDTH = 100
FORMATS = ("table", "wide", "json", "yaml", "name")
ITSELF_WHEN_EMPTY = ("command", "args", "why", "formula")
"""Arguments of which an empty text is as good as any other."""
WRITERS = ("gangline run", "gangline submit", "gangline logs")
"""Verbs at which others write a job's output to a file by -o."""
ACTS_ON_NODES = ("drain", "resume", "assign", "forget")
"""`gangline nodes drain n1` is what some hands type for `gangline drain n1`."""

INTRODUCTION = "Gangline schedules GPU jobs: submit them, see why they wait, follow them, divide the machines fairly."
FIRST_STEPS = """\
First steps:
  gangline up                                   start the platform on this machine
  gangline run --gpus 1 -- python train.py      run something, see its output, get its exit code
  gangline queue                                who waits, and why

`gangline VERB --help` has the flags of a verb. The platform is found by --url and --token, GANGLINE_URL and
GANGLINE_TOKEN, the contexts file (`gangline context`), or by itself when it runs on this machine.
"""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps our line breaks, and gives flags enough room."""

    def __init__(self, prog: str) -> None:
        """As wide as the terminal, up to 110 columns."""
        super().__init__(prog, max_help_position=32, width=min(110, _columns()))


class Parser(command_line.Parser):
    """Says of a word that is no verb what verb may have been meant; argparse knows only those that it parses."""

    def may_be_empty(self, action: argparse.Action) -> bool:
        """The group that one acts on may be the root; and where nothing is the default, "" takes away what is there."""
        is_root = action.dest == "group" and not action.option_strings
        clears = bool(action.option_strings) and action.default is None
        return is_root or clears or action.dest in ITSELF_WHEN_EMPTY

    def error(self, message: str) -> NoReturn:
        """Print usage and the message, and leave with 2."""
        wrong = re.match(r"argument VERB: invalid choice: '([^']*)'", message)
        if message.startswith("argument --output/-o: invalid choice") and self.prog in WRITERS:
            message += "; what a job writes is kept by the platform: `gangline logs JOB > FILE`"
        super().error(no_verb(wrong[1]) if wrong else message)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all verbs."""
    parser = Parser(prog="gangline", usage="gangline VERB [ARGUMENTS]", add_help=False, formatter_class=Formatter)
    _add_common(parser)
    parser.add_argument("--help", "-h", action="store_true", dest="help_wanted")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for verb in VERBS:
        inner = verbs.add_parser(verb.name, prog=f"gangline {verb.name}", help=verb.summary, formatter_class=Formatter)
        _add_verb(inner, verb)
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; prints usage and leaves with 2 for what cannot be understood, as argparse does."""
    parser = build_parser()
    words = list(argv)
    if words[:1] == ["nodes"] and words[1:2] and words[1] in ACTS_ON_NODES:
        del words[0]
    for word in words:
        if not word.isascii() and any("\ud800" <= letter <= "\udfff" for letter in word):
            parser.error(f"{word!r} is not UTF-8 text")
    args, unknown = parser.parse_known_args(words)
    if isinstance(getattr(args, "changes", None), list):
        # Where there need be no KEY=VALUE, argparse looks for none behind a flag.
        args.changes = [*args.changes, *(word for word in unknown if not word.startswith("-"))]
        unknown = [word for word in unknown if word.startswith("-")]
    if unknown:
        verbs = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        own = verbs.choices.get(args.verb, parser)
        acts = {inner.prog.split()[-1]: inner for inner in _inner(own)}
        inner = next((acts[word] for word in words if word in acts), own)
        inner.error(_strange(args.verb, words, unknown, prog=inner.prog))
    if args.verb is None and not args.help_wanted:
        parser.error("which verb? See `gangline --help`.")
    return args


def _strange(verb: str | None, words: list[str], unknown: list[str], *, prog: str) -> str:
    """What to say of words that no flag or argument of the verb takes."""
    if verb == "submit" and "--" in words:
        rest = " ".join(word for word in words[1:] if word != "submit")
        return f"submit takes job files; a command is submitted with `gangline run --detach {rest}`"
    first = unknown[0]
    if verb == "submit" and first.startswith("-"):
        return no_flag_of_submit(first)
    if verb == "run" and first.startswith("-"):
        return no_flag_of_run(first)
    if verb is None and first in ("--version", "-V"):
        return "the versions of command and platform are shown by `gangline version`"
    if verb == "edit" and first.startswith("--"):
        key, _, value = first[2:].partition("=")
        return f"{first} is no flag; terms are written as {key.replace('-', '_')}={value or 'VALUE'}"
    return f"{first} is not known here; see `{prog} --help`"


def overview() -> str:
    """What `gangline --help` prints."""
    lines = [INTRODUCTION, "", "Platform"]
    lines += [f"  {each.name:<11}{each.summary}" for each in HANDOVERS]
    for chapter in CHAPTERS:
        lines += ["", chapter]
        lines += [f"  {verb.name:<11}{verb.summary}" for verb in VERBS if verb.chapter == chapter]
    return "\n".join([*lines, "", FIRST_STEPS]).rstrip()


def _add_verb(parser: argparse.ArgumentParser, verb: Verb) -> None:
    parser.description = verb.summary[0].upper() + verb.summary[1:] + "."
    verb.flags(parser)
    for inner in _inner(parser):
        inner.formatter_class = Formatter
        _add_common(inner, inherited=True, online=not verb.offline)
        inner.usage = _usage(inner)
    _add_common(parser, inherited=True, online=not verb.offline)
    parser.description = textwrap.fill(parser.description, TEXT_WIDTH)
    parser.usage = parser.usage or _usage(parser)


def _usage(parser: argparse.ArgumentParser) -> str:
    """The command in one line: its name, that it has flags, and what must follow."""
    formatter = parser._get_formatter()
    rest = formatter._format_actions_usage(parser._get_positional_actions(), [])
    return f"{parser.prog} [FLAGS] {rest}".rstrip()


def _inner(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parsers of a verb's own acts, such as `quota set`."""
    found: list[argparse.ArgumentParser] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.extend(action.choices.values())
    return found


def _add_common(parser: argparse.ArgumentParser, *, inherited: bool = False, online: bool = True) -> None:
    """Flags that may stand before or behind the verb; the inner ones do not reset what the outer ones said."""
    group = parser.add_argument_group("everywhere")

    def default(value: str) -> str:
        return argparse.SUPPRESS if inherited else value

    group.add_argument("--output", "-o", choices=FORMATS, default=default("table"), help="form of the answer")
    if not online:
        return
    group.add_argument("--url", default=default(""), help="address of the platform")
    group.add_argument(
        "--token", default=default(""), help="access token; GANGLINE_TOKEN keeps it out of process lists"
    )
    group.add_argument("--context", default=default(""), metavar="NAME", help="context of the contexts file")


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns
