"""Draws docs/orderings.md: who goes next by each ordering, what its score is made of, and which settings it reads."""

import inspect
import sys

from draw.markdown import code, document, table
from gangline_core.cluster import Policy
from gangline_core.foresight.predict import PREDICTORS
from gangline_core.ordering import ORDERINGS
from gangline_core.ordering.gavel import OBJECTIVES
from gangline_core.sharing.rules import RULES

SETTINGS = {
    "fair_share": ("half_life_s",),
    "gavel": ("objective", "newcomers_wait"),
    "least_attained": ("service_thresholds", "promote_after", "returned_last", "sinks_last"),
    "weighted": ("formula",),
}
"""Settings of a policy that only one ordering reads."""
PART = (
    "Where more is asked for than there is, everybody waits for longer than `starvation_s`, and a pool in which all of "
    "those went by age would be first come, first served, whatever its ordering says. So jobs that starve go first, "
    "oldest first, only while those running that did hold less than `starvation_percent` of the pool's GPUs, CPUs and "
    "memory each (those who start in one round together may exceed it). Then the ordering says who goes next, until "
    "some of them end; with 100 those that starve go first always ([decision "
    "0028](decisions/0028-who-starves-has-a-part-of-the-pool.md))."
)
CHECKPOINTS = (
    "Jobs that say `checkpoints: true` go on where they were stopped, and make way for each other. One that had "
    "`yield_after_gpu_s` of GPU-seconds, its share, stands in a queue by what it is taken to need still: what it said "
    "(`estimate`) less what it had, or as much as it had where it said nothing or runs longer, and no more than its "
    "time limit leaves of its run. Less than a share is queue 0, in which all others are, and each doubling one queue "
    "more; six at once where only what it had tells it. It stands behind all in lower queues that are no less "
    "important (term `lets_pass`), and those of them that say it, too, may take its room (rule `yield`) once its run "
    "has lasted `yield_run_s` ([decision 0029](decisions/0029-who-needs-less-still-goes-before.md)). When "
    "it has waited the longer of `yield_wait_s` and `starvation_s` in all, it starves, takes room by the same rule, "
    "and when it went first for that makes way no more: that wait stands for `starvation_s` in what is promised above. "
    "Guarantees, priorities, protected time and `preemptible: false` hold as ever, and no job that says nothing is "
    "touched. It is idle under `least_attained`, leases and time slices, which share time already, and with "
    "`yield_after_gpu_s: 0`."
)
LEASES = (
    "With `lease_s` room is lent for so long, under any ordering: at the end of each lease jobs that run and jobs "
    "that wait stand in one order, opportunistic ones last, and are taken from its front while GPUs last. Who is "
    "taken and runs goes on where it is; who is not makes way for those that were and need its room. It is Gavel's "
    "mechanism (section "
    "5); under `gavel` the order is by part of time over time had on each model, and a job may move to another "
    "model. Models are handed out one after the other: first the one on which all jobs together say that they go "
    "fastest, where they say the same the one with the higher price, then by name. Parts are worked out at most "
    "every 1,000 s; who came since has what others leave, or waits for its part (`newcomers_wait`). Protected "
    "time, shelter of guarantees and `preemptible: false` hold as ever. Stops cost time, so leases should be long "
    "beside those. A job that does not say `checkpoints` begins anew after each of them, so its leases grow: a run "
    "goes on until it has lasted as long as all its runs together that were cut off before, and every job ends, "
    "however short leases are (decision 0026)."
)
SHARING = (
    "With `sharing` jobs work on the same GPUs at once, each with an equal part of their time in books and bills "
    "(guests with none); whoever is left when one ends has more of it, without starting again. Only jobs of one role "
    "and one size share, with whole GPUs of which they use no more memory than they say (`gpu_memory_most`), in the "
    "very places of the others, at most four at a time. The stages of an iteration are attributes that a job gives in "
    "ms: `loading_ms` (reading and preparing), `compute_ms`, `network_ms`, and `iteration_ms`, what all of them take "
    "together."
)


def page() -> str:
    """The page."""
    rows = ((code(name), idea(name), score(name), settings(name)) for name in ORDERINGS)
    objectives = ((code(name), first_line(inspect.getdoc(solve))) for name, solve in OBJECTIVES.items())
    return document(
        "Orderings",
        "A pool's policy names the ordering that says who goes next. Every round scores all waiting jobs that may "
        "enter; each term of a score is kept in the log and shown by `gangline why`. Whatever the ordering, a job "
        "that has waited longer than `starvation_s` goes before everything younger, while those that went first for it "
        "hold less than `starvation_percent` of the pool; ties are broken by age, then by id. All of them read "
        "only what the log says, so a replay gives the same order.",
        "Waiting ends. Under any endless stream of smaller jobs, a job that fits the empty pool and its limits starts "
        "no later than `starvation_s`, until it goes before everything younger, plus its dates, plus what older ones "
        "that starve take on their part of the pool; each date lies no further off than the longest "
        "time limit of what then runs. There is one date for the pool's room (the first "
        "in order that finds none) and one below each limit (the first that it keeps out): of a user, a group or one "
        "above it, of what may be borrowed or is not lent, of a GPU model, of running jobs. Whoever comes later and "
        "counts below the same limit starts only if it ends before that date or leaves enough of the limit; room of "
        "other groups stays open. With time limits on all jobs a date is kept; where nobody knows when something "
        "ends, it stands for as soon as enough has ended, oldest first.",
        PART,
        "With `starvation_s: 0` whoever the ordering puts in front may come for ever: then only `fifo`, among jobs of "
        "one priority, promises an end. A job that starves is first in its pool: strict levels, higher priorities "
        "and claims of others do not pass it, and nobody makes room for himself in what it counts on. Still before "
        "it are: older ones that starve, whoever an administrator put on top, and who is owed a guarantee of another "
        "group than its own, as far as that goes (within one guarantee small jobs do not pass a large one for being "
        "owed it). These take what its reservation counts on only where neither free room elsewhere nor lent room that "
        "comes back gives them the same. So the promise is for a job that fits the empty pool beside what other groups "
        "are guaranteed; one that needs some of that waits for as long as they use it. Nothing is kept of a budget, "
        "which does not come back.",
        "What starts late ends, too. Time in vain is what a job waited and what it ran in runs that evictions cut off. "
        "When that comes to `starvation_s`, a job that was evicted before, or that starts before others of higher "
        "priority who wait, is left to work for as long as its time in vain: no priority and no attained service has "
        "it evicted, and a guarantee takes from it only what nobody else can give. Each eviction after that doubles "
        "the time, so of a run of R there are at most log2(R / `starvation_s`) + 1 more of them. `gangline why` tells "
        "it of the job and of those who wait for it. Opportunistic jobs make way all the same, and time slices end. "
        "Otherwise higher priority may evict a started job, unless `protected` or `preemptible: false` says "
        "otherwise; its age stays with it.",
        CHECKPOINTS,
        table(("Ordering", "Who goes next", "Score", "Settings"), rows),
        "`level` in a score is the band of the job's queue level. A policy's `levels` may make a level strict (nobody "
        "starts before the one in front of it, which loses its place after `head_wait_s`), and may move jobs to "
        "another level after service (`after_gpu_s`) or waiting (`after_wait_s`).",
        "## Objectives of `gavel`",
        table(("Objective", "What the linear program makes as good as can be"), objectives),
        "Backfill is set beside the ordering: `backfill_depth: 1` is EASY (the first that cannot start has a date), "
        "more is conservative (so many have one), and with 0 whoever fits may pass. A job without time limit counts "
        "with `unlimited_run_percent` of what nine of ten jobs like it stayed under; 0 lets no such job pass.",
        LEASES,
        "## Sharing",
        SHARING,
        table(("Sharing", "Who shares GPUs with whom"), ((code(name), about) for name, about in RULES.items())),
        "`predictor` says where run times come from: "
        + "; ".join(f"`{name}`: {about[0].lower()}{about[1:].rstrip('.')}" for name, about in PREDICTORS.items())
        + ".",
    )


def idea(name: str) -> str:
    """The first paragraph of the ordering's file."""
    module = sys.modules[ORDERINGS[name].__module__]
    return first_line(inspect.getdoc(module))


def score(name: str) -> str:
    """What the ordering's function says of the score."""
    return first_line(inspect.getdoc(ORDERINGS[name]))


def settings(name: str) -> str:
    """Settings with their defaults."""
    usual = Policy()
    return ", ".join(code(f"{setting}: {_shown(getattr(usual, setting))}") for setting in SETTINGS.get(name, ()))


def first_line(text: str | None) -> str:
    """The first paragraph as one line."""
    return " ".join((text or "").split("\n\n")[0].split())


def _shown(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
