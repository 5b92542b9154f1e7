"""Every verb of the command, once: what it does, its flags, and the module that does it."""

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass

from gangline_client import flags_jobs as jobs
from gangline_client import flags_platform as platform
from gangline_client import flags_steer as steer


@dataclass(frozen=True)
class Verb:
    """One verb; `home` is the module under commands/, `function` its coroutine (session, arguments) -> exit code."""

    name: str
    summary: str
    chapter: str
    flags: Callable[[ArgumentParser], None]
    home: str
    function: str
    offline: bool = False
    """True when it needs no platform: the function takes (console, arguments, environ) and does not wait."""


@dataclass(frozen=True)
class Handover:
    """A verb that another program of the house does: it is started in our place with all arguments."""

    name: str
    summary: str
    module: str
    first: tuple[str, ...] = ()


HANDOVERS = (
    Handover("up", "start the platform on this machine; Ctrl-C stops it", "gangline_embedded", ("up",)),
    Handover("demo", "see the platform work on a simulated cluster, then stop", "gangline_embedded", ("demo",)),
    Handover("agent", "join this machine to a running platform", "gangline_agent"),
    Handover("lab", "simulate, replay, explain a log, ask what-if, tune", "gangline_lab"),
)

VERBS = (
    Verb("run", "submit a command, follow it, return its exit code", "Jobs", jobs.run, "run", "run"),
    Verb("submit", "submit job files", "Jobs", jobs.submit, "submit", "submit"),
    Verb("show", "list jobs, or show one with its history", "Jobs", jobs.show, "show", "show"),
    Verb("why", "explain why a job is where it is", "Jobs", jobs.why, "why", "why"),
    Verb("logs", "print what a job writes", "Jobs", jobs.logs, "logs", "logs"),
    Verb("wait", "wait for jobs, return their exit code", "Jobs", jobs.wait, "wait", "wait"),
    Verb("cancel", "end jobs", "Jobs", jobs.cancel, "acts", "cancel"),
    Verb("hold", "keep jobs from starting; suspend running ones", "Jobs", jobs.hold, "acts", "hold"),
    Verb("release", "let held or suspended jobs go on", "Jobs", jobs.release, "acts", "release"),
    Verb("suspend", "pause running jobs where they are", "Jobs", jobs.suspend, "acts", "suspend"),
    Verb("edit", "change terms of a job", "Jobs", steer.edit, "steer", "edit"),
    Verb("move", "move jobs to another pool or queue level", "Jobs", steer.move, "steer", "move"),
    Verb("top", "put waiting jobs before your others", "Jobs", steer.top, "steer", "top"),
    Verb("resize", "ask for a size of a running elastic job", "Jobs", steer.resize, "steer", "resize"),
    Verb("rerun", "submit jobs once more", "Jobs", steer.rerun, "steer", "rerun"),
    Verb("queue", "show the waiting jobs in order, each with its reason", "Cluster", platform.queue, "queue", "queue"),
    Verb("status", "show totals of the cluster", "Cluster", platform.status, "status", "status"),
    Verb("nodes", "show machines and their GPUs", "Cluster", platform.nodes, "nodes", "nodes"),
    Verb("drain", "let nodes take no new work", "Cluster", platform.drain, "nodes", "drain"),
    Verb("assign", "let nodes serve another pool", "Cluster", platform.assign, "nodes", "assign"),
    Verb("forget", "take lost nodes off the books", "Cluster", platform.forget, "nodes", "forget"),
    Verb("resume", "let suspended jobs or drained nodes go on", "Cluster", platform.resume, "nodes", "resume"),
    Verb("events", "follow what happens", "Cluster", platform.events, "events", "events"),
    Verb("window", "keep nodes for maintenance or for some", "Cluster", steer.window, "window", "window"),
    Verb("prices", "show or change what a GPU-hour costs", "Groups", steer.prices, "window", "prices"),
    Verb("usage", "show GPU-hours used by groups and users", "Groups", platform.usage, "usage", "usage"),
    Verb("quota", "show or change what groups and users may use", "Groups", platform.quota, "quota", "quota"),
    Verb("policy", "show, check or change how a pool decides", "Groups", platform.policy, "policy", "policy"),
    Verb("token", "issue, list or revoke access tokens", "Groups", platform.token, "token", "token"),
    Verb("whoami", "show what your token allows", "Settings", platform.whoami, "status", "whoami"),
    Verb("context", "name platforms and choose one", "Settings", platform.context, "context", "context", True),
    Verb("version", "show versions of command and platform", "Settings", platform.version, "status", "version"),
    Verb("completion", "print a completion script", "Settings", platform.completion, "completion", "completion", True),
)

CHAPTERS = ("Jobs", "Cluster", "Groups", "Settings")
