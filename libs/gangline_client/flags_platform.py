"""Flags of the verbs about the cluster, its groups and its access."""

from argparse import ArgumentParser

from gangline_client.flags_jobs import from_one, watch

ROLES = ("user", "head", "admin", "readonly")
SHELLS = ("bash", "zsh", "fish")

QUOTA_KEYS = """\
A change is KEY=VALUE; an empty value removes the limit. Keys:
  gpus, gpus:MODEL, gpu_memory, cpus, memory, device:NAME, jobs
                                            the most the group may use at once (jobs: running jobs)
  guaranteed.gpus, guaranteed.cpus, ...     what it can always get back
  user.gpus, ...                            limit of each user without an own one
  job.gpus, ...                             the most one job may ask for
  borrow.gpus, ...                          the most beyond its guarantee
  lend.gpus, ...                            the most of its idle guarantee that others may use
  budget                                    GPU-hours in all (0: no budget)
  budget_period, budget_zone                day, week, month, quarter or year: the budget is for so long, from midnight
                                            of this time zone on (default UTC); empty: once and for all
  budget_mode                               start (nothing new), safe (only what can end inside it), stop (ends all)
  weight, level                             factors of the priority formula
  heads                                     users who may change it, separated by commas
  queued_jobs, submits_per_minute           unfinished jobs; submits in a minute (0: no cap)
  user.queued_jobs, user.submits_per_minute the same for each user without an own one
  priority_max, user.priority_max           highest priority of its jobs; of what they are submitted with and users set
  levels                                    queue levels its jobs may be in, separated by commas
  class                                     of a user: the class whose settings it shares
  season.NAME="22:00-06:00 Europe/Berlin mon-fri", season.NAME.gpus=64
                                            other limits at certain times; an empty time removes it
  time_limit                                longest time limit a job may have, such as 7d (0: none)
"""
POLICY_KEYS = """\
A change is KEY=VALUE. Keys:
  ordering, placement, elastic                      names from `gangline policy show`
  formula                    expression of the weighted ordering, such as "level + 10 * age_hours"
  preemption, shrink, backfill, elastic_growth      true or false
  starvation                 after this wait a job goes first, such as 1h
  starvation_percent         on at most so much of the pool (100: all of it)
  candidates_max, candidates_per_shape              most jobs one round looks at
  node_tasks_max             most tasks on one node, whatever they ask for (default 512)
  predictor=learnt model=@FILE                      run times from a file of `gangline lab train`
  and every other field of a policy that is no list, such as hang=10m, yield_wait=12h or backfill_depth=4
Without a value (formula=) it is as by default again.
"""


def queue(parser: ArgumentParser) -> None:
    """`gangline queue`."""
    parser.add_argument("--pool", default="", help="the pool (default: all pools)")
    parser.add_argument("--group", default="", metavar="PATH", help="only jobs of this group and what is below it")
    parser.add_argument("--user", "-u", default="", help="only jobs of this user")
    parser.add_argument("--mine", action="store_true", help="only your own jobs")
    parser.add_argument("--reason", default="", metavar="CODE", help="only jobs with this reason, such as GroupLimit")
    parser.add_argument("--limit", default=0, type=from_one, metavar="N", help="show at most N jobs of each pool")
    watch(parser)


def status(parser: ArgumentParser) -> None:
    """`gangline status`."""
    watch(parser)


def nodes(parser: ArgumentParser) -> None:
    """`gangline nodes`."""
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="show these in detail")
    parser.add_argument("--pool", default="", help="only nodes of this pool")
    watch(parser)


def drain(parser: ArgumentParser) -> None:
    """`gangline drain`."""
    parser.add_argument("nodes", nargs="+", metavar="NODE")
    parser.add_argument("--why", "--reason", default="", metavar="TEXT", help="reason to record")


def assign(parser: ArgumentParser) -> None:
    """`gangline assign`."""
    parser.description = "Lets nodes serve another pool, whatever their agents say. What runs on them goes on."
    parser.add_argument("nodes", nargs="+", metavar="NODE")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--pool", metavar="POOL", help="the pool they serve from now on")
    where.add_argument("--back", action="store_true", help="back to the pool that their agents name")
    parser.add_argument("--why", "--reason", default="", metavar="TEXT", help="reason to record")


def forget(parser: ArgumentParser) -> None:
    """`gangline forget`."""
    parser.description = (
        "Takes lost nodes off the books for good. What nobody saw end there keeps its room until somebody says, with "
        "--gone, that the machine is gone or off and nothing of it still runs. A node that comes back is a new one."
    )
    parser.add_argument("nodes", nargs="+", metavar="NODE")
    parser.add_argument("--gone", action="store_true", help="nothing runs there any more, though nobody saw it end")
    parser.add_argument("--why", "--reason", default="", metavar="TEXT", help="reason to record")


def resume(parser: ArgumentParser) -> None:
    """`gangline resume`."""
    parser.description = "Lets suspended jobs go on where they stood still, or drained nodes take work again."
    parser.add_argument("targets", nargs="+", metavar="JOB|NODE", help="number or name of a job, or name of a node")
    parser.add_argument("--urgent", action="store_true", help="lower jobs on a job's GPUs are paused for it")


def events(parser: ArgumentParser) -> None:
    """`gangline events`."""
    parser.description = "Prints events as they happen until Ctrl-C; -o json prints one JSON object per line."
    parser.add_argument("--job", default="", metavar="JOB", help="only events of this job; stops when it has ended")
    parser.add_argument("--group", default="", metavar="PATH", help="only events of this group")
    parser.add_argument("--after", default="", metavar="ID", help="begin behind this event; 0-0 begins with the oldest")
    parser.add_argument("--count", default=0, type=from_one, metavar="N", help="stop after N events")


def usage(parser: ArgumentParser) -> None:
    """`gangline usage`."""
    parser.add_argument("--group", default="", metavar="PATH", help="only this group and what is below it")
    parser.add_argument("--users", action="store_true", help="show users too")


def quota(parser: ArgumentParser) -> None:
    """`gangline quota`."""
    parser.epilog = QUOTA_KEYS
    verbs = parser.add_subparsers(dest="act", metavar="ACT")
    showing = verbs.add_parser("show", help="show groups, or one in detail (the default)")
    showing.add_argument("group", nargs="?", default=None, metavar="GROUP")
    setting = verbs.add_parser("set", help="change a group", epilog=QUOTA_KEYS)
    setting.add_argument("group", metavar="GROUP", help='path such as research/vision; "" is the root')
    _changes(setting, least="*")
    setting.add_argument("--create", action="store_true", help="make the group if there is none")
    user = verbs.add_parser("user", help="show or change a user of a group", epilog=QUOTA_KEYS)
    user.add_argument("group", metavar="GROUP")
    user.add_argument("user", metavar="USER")
    _changes(user, least="*")
    user.add_argument("--create", action="store_true", help="make the user a member if it is none")
    removing = verbs.add_parser("remove", help="take a group, or a user of it, out")
    removing.description = (
        "Refused while jobs are unfinished; with --drain it takes no new jobs and goes when the last one has ended."
    )
    removing.add_argument("group", metavar="GROUP")
    removing.add_argument("user", nargs="?", default=None, metavar="USER", help="only this member, not the group")
    removing.add_argument("--drain", action="store_true", help="let unfinished jobs end first")
    removing.add_argument("--dry-run", action="store_true", help="check it, without doing it")
    removing.add_argument("--why", "--reason", default="", metavar="TEXT", help="reason to record")
    history = verbs.add_parser("history", help="show who changed groups and users, when, why and from what to what")
    history.add_argument("group", nargs="?", default=None, metavar="GROUP", help="only this one and what is below it")
    _latest(history)


def policy(parser: ArgumentParser) -> None:
    """`gangline policy`."""
    verbs = parser.add_subparsers(dest="act", metavar="ACT")
    showing = verbs.add_parser("show", help="show policies and the names to choose from (the default)")
    showing.add_argument("pool", nargs="?", default="", metavar="POOL")
    showing.add_argument("--file", action="store_true", help="print all settings as a policy file")
    setting = verbs.add_parser("set", help="change a pool's policy", epilog=POLICY_KEYS)
    setting.add_argument("pool", metavar="POOL")
    _changes(setting)
    lint = verbs.add_parser("lint", help="check a policy file, or a formula, without using it")
    lint.add_argument("formula", metavar="FILE|FORMULA", help="a policy file (.yaml, .yml, .json or -), or a formula")
    lint.add_argument("--pool", default="default", help="pool it is checked for")
    lint.add_argument("--offline", action="store_true", help="check it by itself; no platform is asked")

    diff = verbs.add_parser("diff", help="show what a policy file would change")
    diff.add_argument("file", metavar="FILE", help="policy file, or - for standard input")
    apply = verbs.add_parser("apply", help="make all settings as a policy file says, or none")
    apply.add_argument("file", metavar="FILE", help="policy file, or - for standard input")
    apply.add_argument("--dry-run", action="store_true", help="the same as `gangline policy diff`")
    apply.add_argument("--why", "--reason", default="", metavar="TEXT", help="reason to record")
    apply.add_argument("--yes", "-y", action="store_true", help="do not show the changes and ask first")
    history = verbs.add_parser("history", help="show who changed pools and policies, when, why and from what to what")
    history.add_argument("pool", nargs="?", default="", metavar="POOL")
    _latest(history)


def token(parser: ArgumentParser) -> None:
    """`gangline token`."""
    verbs = parser.add_subparsers(dest="act", metavar="ACT")
    issue = verbs.add_parser("issue", help="make a token; it is shown once")
    issue.add_argument("name", metavar="NAME", help="what it is for, such as laptop or ci")
    issue.add_argument("--role", default="user", choices=ROLES)
    issue.add_argument("--user", default="", help="whose jobs it submits (default: you)")
    issue.add_argument(
        "--group", action="append", default=[], metavar="PATH", help="group it may act in; may be repeated"
    )
    issue.add_argument(
        "--expires", default="", metavar="TIME", help="valid for this long, such as 90d (default: for ever)"
    )
    verbs.add_parser("list", help="show tokens (the default)")
    _latest(verbs.add_parser("history", help="show who made and revoked tokens, and when"))
    revoke = verbs.add_parser("revoke", help="make tokens useless")
    revoke.add_argument("tokens", nargs="+", metavar="TOKEN", help="name, or the beginning of its hash")


def whoami(parser: ArgumentParser) -> None:
    """`gangline whoami`."""


def version(parser: ArgumentParser) -> None:
    """`gangline version`."""
    parser.add_argument("--client", action="store_true", help="only this command's version; asks nobody")


def context(parser: ArgumentParser) -> None:
    """`gangline context`."""
    verbs = parser.add_subparsers(dest="act", metavar="ACT")
    verbs.add_parser("list", help="show contexts (the default)")
    use = verbs.add_parser("use", help="choose the context commands use")
    use.add_argument("name", metavar="NAME")
    setting = verbs.add_parser("set", help="make or change a context")
    setting.add_argument("name", metavar="NAME")
    setting.add_argument("--url", default=None)
    setting.add_argument("--token", default=None, help="- reads it from standard input")
    setting.add_argument("--group", default=None, metavar="PATH")
    setting.add_argument("--pool", default=None)
    remove = verbs.add_parser("remove", help="forget a context")
    remove.add_argument("name", metavar="NAME")


def completion(parser: ArgumentParser) -> None:
    """`gangline completion`."""
    parser.epilog = (
        "Put one of these into your shell's start-up file:\n"
        '  bash   eval "$(gangline completion bash)"\n'
        '  zsh    eval "$(gangline completion zsh)"\n'
        "  fish   gangline completion fish | source"
    )
    parser.add_argument("shell", choices=SHELLS)


def _latest(parser: ArgumentParser) -> None:
    parser.description = "The latest first. The platform remembers the last 20 edits of each setting, the archive all."
    parser.add_argument("--limit", default=50, type=from_one, metavar="N", help="show at most N edits (default 50)")


def _changes(parser: ArgumentParser, *, least: str = "+") -> None:
    # Without a default of its own argparse names it among what is missing, though there need be none.
    if least == "*":
        parser.add_argument("changes", nargs="*", default=[], metavar="KEY=VALUE")
    else:
        parser.add_argument("changes", nargs=least, metavar="KEY=VALUE")
    parser.add_argument("--dry-run", action="store_true", help="check the change and show it, without making it")
    parser.add_argument("--why", "--reason", default="", metavar="TEXT", help="reason to record")
