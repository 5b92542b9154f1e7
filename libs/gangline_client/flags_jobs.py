"""Flags of the verbs about jobs."""

import argparse
from argparse import ArgumentParser

STATES = (
    "held",
    "waiting",
    "starting",
    "running",
    "resizing",
    "paused",
    "suspended",
    "stopping",
    "succeeded",
    "failed",
    "cancelled",
    "timed_out",
    "lost",
)
SERVICE_CLASSES = ("guaranteed", "burstable", "opportunistic")
WAIT_TARGETS = ("ended", "running", "started")


def from_one(text: str) -> int:
    """A whole number of at least one."""
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def run(parser: ArgumentParser) -> None:
    """`gangline run`."""
    parser.description = (
        "Submits a command, shows why it waits, prints its output and returns its exit code "
        "(124 for a time limit, 127 for a command that is not found, 130 when cancelled). "
        "Ctrl-C leaves the job alone and says how to follow or cancel it."
    )
    parser.usage = "gangline run [FLAGS] -- COMMAND ..."
    _resources(parser)
    _terms(parser)
    parser.add_argument(
        "--env",
        "-e",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="set a variable; without a value, take yours",
    )
    parser.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="NAME",
        help="pass your variable NAME on, sealed: no log or record shows it",
    )
    parser.add_argument(
        "--clean-env", action="store_true", help="do not pass on PATH and the active Python environment"
    )
    parser.add_argument("--workdir", default="", metavar="FOLDER", help="folder to run in (default: this one)")
    parser.add_argument("--detach", "-d", action="store_true", help="print the job's number and return at once")
    parser.add_argument("--cancel-on-interrupt", action="store_true", help="the first Ctrl-C cancels the job")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="ask whether it would be admitted, where and when it would start, and at what cost",
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="print only the job's output")
    _raw(parser)
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help="what to run, without a shell"
    )


def _resources(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("what each task needs")
    group.add_argument("--gpus", "-g", default="", metavar="N", help="GPUs: 2, or a share such as 0.5 or 500m")
    group.add_argument("--gpu-memory", default="", metavar="SIZE", help="memory on each GPU, such as 16Gi")
    group.add_argument(
        "--gpu-model",
        action="append",
        default=[],
        metavar="MODEL",
        help="acceptable model, best first; repeat or separate by commas",
    )
    group.add_argument("--cpus", "-c", default="", metavar="N", help="CPUs: 4, 0.5 or 500m")
    group.add_argument("--memory", "-m", default="", metavar="SIZE", help="main memory, such as 16Gi")
    group.add_argument(
        "--tasks", "-n", default=None, type=int, metavar="N", help="equal tasks that start together (default: 1)"
    )
    group.add_argument(
        "--min-tasks", default=None, type=int, metavar="N", help="start with as few as this; makes the job elastic"
    )
    group.add_argument(
        "--max-tasks", default=None, type=int, metavar="N", help="grow up to this; makes the job elastic"
    )
    group.add_argument(
        "--topology", default="", metavar="LEVEL", help="all tasks inside one nvlink, socket, node, rack, ..."
    )
    group.add_argument("--topology-preferred", default="", metavar="LEVEL", help="the same as a wish")
    group.add_argument(
        "--node-selector", action="append", default=[], metavar="LABEL=VALUE", help="only nodes with this label"
    )


def _terms(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("terms")
    group.add_argument("--name", default="", help="name of the job")
    group.add_argument("--group", default="", metavar="PATH", help="group that pays, such as research/vision")
    group.add_argument("--pool", default="", help="pool to run in")
    group.add_argument("--level", default="", help="queue level, such as high or low")
    group.add_argument("--priority", default=None, type=int, metavar="N", help="priority inside the level")
    group.add_argument(
        "--service-class", default="", choices=SERVICE_CLASSES, help="how safe the job is from preemption"
    )
    group.add_argument("--time-limit", "-t", default="", metavar="TIME", help="stop after this, such as 1h30m")
    group.add_argument(
        "--estimate",
        default="",
        metavar="TIME",
        help="how long you think it runs in all; lets it into gaps, and says for whom it makes way if it checkpoints",
    )
    group.add_argument("--grace", default="", metavar="TIME", help="time between the stop signal and the kill")
    group.add_argument(
        "--checkpoints",
        action="store_true",
        help="told to stop it saves its work, and goes on from there later; such jobs make way for each other",
    )
    group.add_argument("--retries", default=None, type=int, metavar="N", help="further attempts after a failure")
    group.add_argument(
        "--after",
        action="append",
        default=[],
        metavar="JOB",
        help="start only when this job (number or name) has succeeded; afterany:JOB when it ended, afternotok:JOB "
        "when it failed",
    )
    group.add_argument("--singleton", action="store_true", help="start only when your earlier jobs of its name ended")
    group.add_argument("--begin", default="", metavar="TIME", help="not before 2026-07-01T02:00:00Z, or +2h")
    group.add_argument("--deadline", default="", metavar="TIME", help="it must have ended by then")
    group.add_argument(
        "--array",
        default="",
        metavar="INDEXES",
        help="many equal jobs: 0-99, 1,3,7 or 0-98:2; %%10 is 10 at once",
    )
    group.add_argument("--hold", action="store_true", help="do not start before `gangline release`")
    group.add_argument("--label", "-l", action="append", default=[], metavar="KEY=VALUE", help="label of the job")
    group.add_argument(
        "--attribute", action="append", default=[], metavar="KEY=VALUE", help="attribute for the priority formula"
    )


def submit(parser: ArgumentParser) -> None:
    """`gangline submit`."""
    parser.description = (
        "Submits job files: YAML with one or more documents, or JSON with one job or a list; - reads standard input. "
        "A script that begins with #! is one job, of which its #SBATCH and #GANGLINE lines say the terms. "
        "All jobs of a call are admitted or none; in `after`, one may name jobs before it in the same call."
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="job file or batch script, or - for standard input")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="ask whether they would be admitted, where and when they would start, and at what cost",
    )
    parser.add_argument("--hold", action="store_true", help="do not start them before `gangline release`")
    parser.add_argument(
        "--wait", action="store_true", help="wait for the end; return the first exit code that is not 0"
    )
    parser.add_argument(
        "--after",
        action="append",
        default=[],
        metavar="JOB",
        help="start only after this job, too, as in `gangline run`",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="a field of the job file, over what the file says, such as time_limit=2h; may be repeated",
    )
    parser.add_argument("--group", default="", metavar="PATH", help="group of jobs that name none")
    parser.add_argument("--pool", default="", help="pool of jobs that name none")
    parser.add_argument(
        "--args", nargs=argparse.REMAINDER, default=[], metavar="ARG", help="what follows are arguments of the script"
    )
    parser.add_argument("--key", default="", help="idempotency key: the same key never submits twice")


def show(parser: ArgumentParser) -> None:
    """`gangline show`."""
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="number or name; without any, jobs are listed")
    parser.add_argument("--history", action="store_true", help="only what happened to the job")
    _filters(parser)
    parser.add_argument("--all", "-a", action="store_true", help="list ended jobs too")
    parser.add_argument("--limit", default=200, type=from_one, metavar="N", help="list at most N jobs (default: 200)")
    watch(parser)


def why(parser: ArgumentParser) -> None:
    """`gangline why`."""
    parser.add_argument("job", metavar="JOB", help="number or name")
    watch(parser)


def logs(parser: ArgumentParser) -> None:
    """`gangline logs`."""
    parser.add_argument("job", metavar="JOB", help="number or name of the job, or a task such as 42-1-worker-0")
    parser.add_argument("--follow", "-f", action="store_true", help="go on until the job has ended")
    parser.add_argument("--tail", default=None, type=int, metavar="N", help="begin with the last N lines")
    parser.add_argument("--task", default="", metavar="TASK", help="only this task, such as worker-0")
    _raw(parser)


def _raw(parser: ArgumentParser) -> None:
    """Output as it was written."""
    parser.add_argument(
        "--raw", action="store_true", help="output of several tasks as it came; else each line begins [worker-2]"
    )


def wait(parser: ArgumentParser) -> None:
    """`gangline wait`."""
    parser.description = "Waits for jobs and returns the first exit code that is not 0; 124 when the time is over."
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="number or name")
    parser.add_argument("--for", dest="target", default="ended", choices=WAIT_TARGETS, help="what to wait for")
    parser.add_argument("--timeout", default="", metavar="TIME", help="give up after this, such as 10m")


def cancel(parser: ArgumentParser) -> None:
    """`gangline cancel`."""
    _some_jobs(parser)
    parser.add_argument("--why", "--reason", default="", metavar="TEXT", help="reason to record")


def hold(parser: ArgumentParser) -> None:
    """`gangline hold`."""
    _some_jobs(parser)


def release(parser: ArgumentParser) -> None:
    """`gangline release`."""
    _some_jobs(parser)


def suspend(parser: ArgumentParser) -> None:
    """`gangline suspend`."""
    parser.description = (
        "Pauses running jobs where they are if they may be (pause: in the job file, or no GPUs): their processes stand "
        "still and keep their memory. Others stop at their checkpoint and give everything back."
    )
    _some_jobs(parser)
    parser.add_argument("--stop", action="store_true", help="give everything back, whatever the job allows")


def watch(parser: ArgumentParser) -> None:
    """The flag that shows an answer again and again."""
    parser.add_argument("--watch", "-w", action="store_true", help="show it again and again until Ctrl-C")
    parser.add_argument("--interval", default=2.0, type=float, metavar="SECONDS", help="how often to --watch")


def _some_jobs(parser: ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="number or name")
    _filters(parser)
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask before acting on filtered jobs")


def _filters(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("filters")
    group.add_argument(
        "--state", action="append", default=[], choices=STATES, help="jobs in this state; may be repeated"
    )
    group.add_argument("--user", "-u", default="", help="jobs of this user")
    group.add_argument("--mine", action="store_true", help="your own jobs")
    group.add_argument("--group", default="", metavar="PATH", help="jobs of this group")
    group.add_argument("--pool", default="", help="jobs of this pool")
    group.add_argument("--name", default="", help="jobs of this name")
    group.add_argument("--label", "-l", action="append", default=[], metavar="KEY=VALUE", help="jobs with this label")
