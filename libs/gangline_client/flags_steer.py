"""Flags of the verbs that change jobs after their submission, and of dated capacity and prices."""

from argparse import ArgumentParser

SCOPES = ("user", "group", "all")
EDIT_KEYS = """\
A change is KEY=VALUE. Keys:
  priority, level, pool              where it stands in the queue
  time_limit                         such as 2h; of a running job its user may take from it, heads may add
  estimate                           such as 2h; before it starts
  not_before, deadline               2026-07-01T02:00:00Z, or +2h; 0 removes it
  retries                            a number
  preemptible                        true or false
  checkpoints                        true or false; while it waits, so that who took room by it gives it
  labels                             key=value,key=value, all of them
  at_most                            of an array: elements unfinished at once (0: no cap)
Users stay within what their group lets them set; heads go up to what their group may; administrators further.
"""


def edit(parser: ArgumentParser) -> None:
    """`gangline edit`."""
    parser.epilog = EDIT_KEYS
    parser.add_argument("job", metavar="JOB", help="number, 42_7 for an element of an array, or name")
    parser.add_argument("changes", nargs="+", metavar="KEY=VALUE")
    parser.add_argument("--dry-run", action="store_true", help="check the change without making it")
    parser.add_argument("--why", "--reason", default="", metavar="TEXT", help="reason to record")


def move(parser: ArgumentParser) -> None:
    """`gangline move`."""
    parser.add_argument("jobs", nargs="+", metavar="JOB")
    parser.add_argument("--pool", default="", help="pool to move to")
    parser.add_argument("--level", default="", help="queue level to move to")
    parser.add_argument("--why", "--reason", default="", metavar="TEXT", help="reason to record")


def top(parser: ArgumentParser) -> None:
    """`gangline top`."""
    parser.description = (
        "Puts waiting jobs first among your own. They take the places that these have anyway, so nobody else moves. "
        "Heads may put a job before all of their group's, administrators before everybody's."
    )
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="the first named goes first")
    parser.add_argument("--among", default="user", choices=SCOPES, help="before whose jobs (default: the user's own)")
    parser.add_argument("--why", "--reason", default="", metavar="TEXT", help="reason to record")


def resize(parser: ArgumentParser) -> None:
    """`gangline resize`."""
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("size", metavar="SIZE", help="number of tasks, or auto to leave it to the policy again")
    parser.add_argument("--role", default="", help="role, when the job has several")


def rerun(parser: ArgumentParser) -> None:
    """`gangline rerun`."""
    parser.description = "Submits jobs once more, as new ones; of an element of an array (42_7) only that element."
    parser.add_argument("jobs", nargs="+", metavar="JOB")
    parser.add_argument("--dry-run", action="store_true", help="ask whether they would be admitted")


def window(parser: ArgumentParser) -> None:
    """`gangline window`."""
    parser.description = (
        "Dated capacity: nodes that are kept for maintenance, or for some groups and users. No job starts there that "
        "would run into it."
    )
    verbs = parser.add_subparsers(dest="act", metavar="ACT")
    verbs.add_parser("list", help="show all (the default)")
    setting = verbs.add_parser("set", help="make or change one")
    setting.add_argument("name", metavar="NAME")
    setting.add_argument("nodes", nargs="*", default=[], metavar="NODE", help="none means the whole pool")
    setting.add_argument("--pool", default="default")
    setting.add_argument("--from", dest="start", required=True, metavar="TIME", help="2026-07-01T02:00:00Z, or +2h")
    setting.add_argument("--to", dest="end", default="", metavar="TIME")
    setting.add_argument("--for", dest="length", default="", metavar="TIME", help="how long, instead of --to")
    setting.add_argument("--group", action="append", default=[], metavar="PATH", help="keep it for this group")
    setting.add_argument("--user", action="append", default=[], help="keep it for this user")
    setting.add_argument("--why", "--reason", default="", metavar="TEXT", help="what for; shown to those who wait")
    setting.add_argument("--dry-run", action="store_true", help="check it without making it")
    remove = verbs.add_parser("remove", help="give it back")
    remove.add_argument("name", metavar="NAME")
    remove.add_argument("--why", "--reason", default="", metavar="TEXT", help="reason to record")


def prices(parser: ArgumentParser) -> None:
    """`gangline prices`."""
    parser.description = (
        "What an hour of a GPU costs, in GPU-hours of budget: H100=2.5 makes one H100 cost two and a half. "
        "Without changes, shows the list."
    )
    parser.add_argument("changes", nargs="*", metavar="MODEL=PRICE", help="* is any other model; empty removes it")
    parser.add_argument("--dry-run", action="store_true", help="check the change without making it")
    parser.add_argument("--why", "--reason", default="", metavar="TEXT", help="reason to record")
