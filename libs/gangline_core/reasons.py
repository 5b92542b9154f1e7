"""Why a job waits, was refused, or ended: a closed enumeration, each code with its numbers and one sentence."""

from datetime import UTC, datetime
from enum import StrEnum

from msgspec import Struct

from gangline_core.closed_hints import TOO_FEW_HINT, of_closed, too_few
from gangline_core.counted import singular
from gangline_core.exit_codes import of_exit
from gangline_core.reason_words import SIGNS, told_rule


class ReasonCode(StrEnum):
    """Every reason there is. A new one needs a sentence in SENTENCES and a hint in HINTS."""

    # waiting: gates
    HELD = "Held"
    SUSPENDED = "Suspended"
    DEPENDENCY = "Dependency"
    DEPENDENCY_FAILED = "DependencyFailed"
    NOT_BEFORE = "NotBefore"
    GROUP_LIMIT = "GroupLimit"
    USER_LIMIT = "UserLimit"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    BUDGET_SHORT = "BudgetShort"
    BORROW_LIMIT = "BorrowLimit"
    NOT_LENT = "NotLent"
    SINGLETON = "Singleton"
    ARRAY_CAP = "ArrayCap"
    WINDOW = "RunsIntoWindow"
    # waiting: order and room
    NOT_YET_CONSIDERED = "NotYetConsidered"
    INSUFFICIENT_GPUS = "InsufficientGpus"
    FRAGMENTED_GPUS = "FragmentedGpus"
    INSUFFICIENT_GPU_MEMORY = "InsufficientGpuMemory"
    INSUFFICIENT_CPU = "InsufficientCpu"
    INSUFFICIENT_MEMORY = "InsufficientMemory"
    INSUFFICIENT_DEVICES = "InsufficientDevices"
    INSUFFICIENT_SLICES = "InsufficientSlices"
    INSUFFICIENT_PLACES = "InsufficientPlaces"
    SHAPE = "ShapeUnsatisfied"
    TOPOLOGY = "TopologyUnsatisfied"
    NO_ELIGIBLE_NODE = "NoEligibleNode"
    NO_LABEL = "NoTopologyLabel"
    POSTPONED = "Postponed"
    NO_PART_YET = "NoPartYet"
    LEASE_CHANGES = "LeaseChanges"
    RESERVED = "ReservedForOlderJob"
    LIMIT_KEPT = "LimitKeptForOlderJob"
    BEHIND_HEAD = "BehindHeadOfLevel"
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    OTHERS_HANG = "OthersHang"
    PLACEMENT_VOIDED = "PlacementVoided"
    # refused at the door, can never fit
    NEVER_FITS_NODE = "NeverFitsNode"
    NEVER_FITS_CLUSTER = "NeverFitsCluster"
    NEVER_FITS_MODEL = "NeverFitsModel"
    NEVER_FITS_TOPOLOGY = "NeverFitsTopology"
    NEVER_FITS_CELLS = "NeverFitsCells"
    NEVER_FITS_LIMIT = "NeverFitsLimit"
    NEVER_FITS_BUDGET = "NeverFitsBudget"
    # refused at the door, by rule
    UNKNOWN_GROUP = "UnknownGroup"
    UNKNOWN_USER = "UnknownUser"
    CLOSING = "Closing"
    UNKNOWN_POOL = "UnknownPool"
    UNKNOWN_LEVEL = "UnknownLevel"
    UNKNOWN_CELL = "UnknownCell"
    UNKNOWN_DEPENDENCY = "UnknownDependency"
    NAME_TAKEN = "NameTaken"
    QUEUE_FULL = "QueueFull"
    QUEUE_TOO_SMALL = "QueueTooSmall"
    SUBMIT_RATE = "SubmitRate"
    TIME_LIMIT_TOO_LONG = "TimeLimitTooLong"
    PRIORITY_BOUND = "PriorityBound"
    LEVEL_BOUND = "LevelBound"
    # ends and interruptions
    EXIT_CODE = "ExitCode"
    TIME_LIMIT = "TimeLimit"
    DEADLINE = "Deadline"
    CANCELLED = "Cancelled"
    PREEMPTED = "Preempted"
    NODE_LOST = "NodeLost"
    GPU_FAILED = "GpuFailed"
    START_FAILED = "StartFailed"
    START_LIMIT = "StartLimit"
    PROCESS_LOST = "ProcessLost"
    KILLED = "Killed"
    PLACE_REFUSED = "PlaceRefused"
    COMPLETED = "Completed"
    SHRUNK = "Shrunk"
    RETRYING = "Retrying"
    RESIZING = "Resizing"
    RESIZE_FAILED = "ResizeFailed"
    REPAIR_LIMIT = "RepairLimit"
    UNDER_USED = "UnderUsed"
    HUNG = "Hung"
    TRESPASSED = "Trespassed"
    PAUSED = "Paused"
    PAUSED_FOR = "PausedFor"
    PLACE_TAKEN = "PlaceTaken"


LIMIT_CODES = frozenset({ReasonCode.GROUP_LIMIT, ReasonCode.USER_LIMIT, ReasonCode.BORROW_LIMIT, ReasonCode.NOT_LENT})
"""Reasons that more room below a limit would cure."""


class Reason(Struct, frozen=True, omit_defaults=True, gc=False):
    """A code and its numbers; `sentence` makes it readable."""

    code: ReasonCode
    numbers: dict[str, int | str] = {}


SENTENCES: dict[ReasonCode, str] = {
    ReasonCode.HELD: "Held by {by}.",
    ReasonCode.SUSPENDED: "Suspended by {by}.",
    ReasonCode.DEPENDENCY: "Waits for job {job} to end.",
    ReasonCode.DEPENDENCY_FAILED: "Job {job}, which had to {had} first, {state}.",
    ReasonCode.NOT_BEFORE: "May not start before {not_before_ms}.",
    ReasonCode.GROUP_LIMIT: "Group {group} uses {used} of {limit} {dimension}; the job needs {needed} more.",
    ReasonCode.USER_LIMIT: "User {user} uses {used} of {limit} {dimension}; the job needs {needed} more.",
    ReasonCode.BUDGET_EXHAUSTED: "The budget of group {group} is used up: {used} of {budget} GPU-hours.",
    ReasonCode.BUDGET_SHORT: (
        "Group {group} starts only what can end inside its budget: {left} GPU-hours are left, the job needs {needed}."
    ),
    ReasonCode.BORROW_LIMIT: (
        "Group {group} uses {used} of the {limit} {dimension} it may have, borrowed ones counted; "
        "the job needs {needed} more."
    ),
    ReasonCode.NOT_LENT: (
        "The job needs {needed} {dimension}; {left} are left beside what group {group} is guaranteed and does not lend."
    ),
    ReasonCode.SINGLETON: "Waits for job {job} of the same user and name to end.",
    ReasonCode.ARRAY_CAP: "{open} of at most {cap} elements of the array are in the queue or run; the others wait.",
    ReasonCode.WINDOW: (
        "Would run into {window}, for which {nodes} nodes are kept from {from_ms} to {to_ms}; "
        "a time limit under {fits_s} s would pass."
    ),
    ReasonCode.NOT_YET_CONSIDERED: "In the queue at position {position}; the next round looks at it.",
    ReasonCode.INSUFFICIENT_GPUS: "Needs {needed} GPUs; at its turn {free} of {total} suitable ones were free{none}.",
    ReasonCode.FRAGMENTED_GPUS: (
        "Needs {needed} GPUs on one node; at its turn {free} were free, at most {free_on_one_node} on one node{where}."
    ),
    ReasonCode.INSUFFICIENT_GPU_MEMORY: (
        "Needs {needed} MiB on one GPU; the suitable GPU with most free memory has {free} MiB."
    ),
    ReasonCode.INSUFFICIENT_CPU: "Needs {needed} CPUs per task; at most {free} are free where it could run{held}.",
    ReasonCode.INSUFFICIENT_MEMORY: (
        "Needs {needed} MiB memory per task; at most {free} are free where it could run{held}."
    ),
    ReasonCode.INSUFFICIENT_DEVICES: (
        "Needs {needed} of device {device} on one node; at most {free} are free there{held}."
    ),
    ReasonCode.INSUFFICIENT_SLICES: "Needs {needed} MIG slices {profile}; the cut cards have room for {free}.",
    ReasonCode.INSUFFICIENT_PLACES: (
        "Needs places for {needed} tasks; nodes that suit it have {free} left, and each takes at most {most} tasks."
    ),
    ReasonCode.SHAPE: "Needs {needed} places {shape}{free}.",
    ReasonCode.TOPOLOGY: "Needs {needed} {things} inside one {level}{free}{where}.",
    ReasonCode.NO_LABEL: "No node that could take it has the label {label}, which names its {level}.",
    ReasonCode.NO_ELIGIBLE_NODE: (
        "No node may take it now: {drained} drained, {lost} lost, {sick}{tainted} tainted, {unmatched} do not match."
    ),
    ReasonCode.BEHIND_HEAD: "Level {level} is served strictly in order, and job {job} in front of it does not fit yet.",
    ReasonCode.POSTPONED: "Waits for a place with a utility of {least} %; the best one now has {best} %.",
    ReasonCode.NO_PART_YET: "It came after parts of time were worked out; they are again from {due_ms} on.",
    ReasonCode.LEASE_CHANGES: "A lease is over and jobs change places; others are looked at when those have stopped.",
    ReasonCode.RESERVED: (
        "Would fit, but room is reserved for older job {job} from {from_ms}; a time limit under {fits_s} s would pass."
    ),
    ReasonCode.LIMIT_KEPT: (
        "Would fit, but what comes back below the limit of {holder} is kept for job {job}, which may start from "
        "{from_ms}; a time limit under {fits_s} s would pass."
    ),
    ReasonCode.WAITING_FOR_VICTIMS: "Room is being cleared for it: {victims} tasks are still stopping.",
    ReasonCode.OTHERS_HANG: "Made way for job {job}; begins when {tasks} tasks that did as well stop, or at {from_ms}.",
    ReasonCode.PLACEMENT_VOIDED: "A placement did not hold ({cause}); it is considered again at once.",
    ReasonCode.NEVER_FITS_NODE: "One task needs {needed} {dimension}; the largest node has {largest}.",
    ReasonCode.NEVER_FITS_CLUSTER: "The job needs {needed} {dimension}; the pool has {largest}.",
    ReasonCode.NEVER_FITS_MODEL: "The job needs {needed} GPUs of model {model}; the pool has {largest}.",
    ReasonCode.NEVER_FITS_TOPOLOGY: "The job needs {needed} GPUs inside one {level}; the largest has {largest}.",
    ReasonCode.NEVER_FITS_CELLS: "The job does not fit the cells of {group}, even empty: {cells}.",
    ReasonCode.NEVER_FITS_LIMIT: "The job needs {needed} {dimension}; the limit of {holder} is {limit}.",
    ReasonCode.NEVER_FITS_BUDGET: (
        "Group {group} starts only what can end inside its budget of {budget} GPU-hours; the job needs {needed}."
    ),
    ReasonCode.UNKNOWN_GROUP: "There is no group {group}.",
    ReasonCode.UNKNOWN_USER: "User {user} is not a member of group {group}.",
    ReasonCode.CLOSING: "{holder} is being removed and takes no new jobs.",
    ReasonCode.UNKNOWN_POOL: "There is no pool {pool}.",
    ReasonCode.UNKNOWN_LEVEL: "Pool {pool} has no queue level {level}.",
    ReasonCode.UNKNOWN_CELL: "Pool {pool} has no pinned cell {cell} for {group}.",
    ReasonCode.UNKNOWN_DEPENDENCY: "There is no job {job} to wait for.",
    ReasonCode.NAME_TAKEN: "User {user} already has an unfinished job named {name} (job {job}).",
    ReasonCode.QUEUE_FULL: "{holder} has {used} unfinished jobs; the limit is {limit}.",
    ReasonCode.QUEUE_TOO_SMALL: "The array has {needed} elements; the limit of {holder} is {limit} unfinished jobs.",
    ReasonCode.SUBMIT_RATE: "{holder} submitted {used} jobs in the last minute; the limit is {limit}.",
    ReasonCode.TIME_LIMIT_TOO_LONG: "The time limit is {needed} s; {holder} allows {limit} s.",
    ReasonCode.PRIORITY_BOUND: "The priority is {needed}; {holder} allows at most {limit}.",
    ReasonCode.LEVEL_BOUND: "Jobs of {holder} may not use queue level {level}; allowed are {allowed}.",
    ReasonCode.DEADLINE: "It {stopped} its deadline {deadline_ms}.",
    ReasonCode.EXIT_CODE: "Task {task} exited with code {exit_code}.",
    ReasonCode.TIME_LIMIT: "Stopped after its time limit of {limit_s} s.",
    ReasonCode.CANCELLED: "Cancelled by {by}.",
    ReasonCode.PREEMPTED: "Preempted by job {job} ({rule}); it waits for its next turn.",
    ReasonCode.NODE_LOST: "Node {node} was lost.",
    ReasonCode.GPU_FAILED: "GPU {gpu} of node {node} failed.",
    ReasonCode.START_LIMIT: (
        "Only {started} of {tasks} tasks had started {limit_s} s after room was given; it gave the room back."
    ),
    ReasonCode.START_FAILED: "Task {task} could not be started: {error}.",
    ReasonCode.PROCESS_LOST: "The process of task {task} was not found again.",
    ReasonCode.KILLED: "Something ended its supervisor on {nodes}, {times} of {most} times in a row; then it is held.",
    ReasonCode.PLACE_REFUSED: "Node {node} did not take task {task}: {error}.",
    ReasonCode.COMPLETED: "All tasks ended with code 0.",
    ReasonCode.SHRUNK: "Shrunk to let job {job} start.",
    ReasonCode.RESIZING: "Starts again: {why}. Tasks: {before} before, {size} then; its room is kept.",
    ReasonCode.RESIZE_FAILED: "Resize {number} was stuck while {stage}; the gang starts again from its checkpoint.",
    ReasonCode.REPAIR_LIMIT: "{missing} lost members found no room within {limit_s} s; the gang starts again.",
    ReasonCode.UNDER_USED: "Its GPUs were used {percent} % for {window_s} s; the pool asks for {least} %.",
    ReasonCode.TRESPASSED: "Processes of task {task} were on GPU {gpu} of {node}, which it does not hold.",
    ReasonCode.HUNG: "Task {task} made no progress for {silent_s} s{sign}; the gang starts again from its checkpoint.",
    ReasonCode.PAUSED: "Paused by {by}: its processes stand still and keep their memory.",
    ReasonCode.PAUSED_FOR: "Paused for job {job} ({rule}); it goes on when its place is free again.",
    ReasonCode.PLACE_TAKEN: "It goes on as soon as the GPUs and CPUs that it left are free again.",
    ReasonCode.RETRYING: "Attempt {attempt} failed with code {exit_code}; {left} retries are left.",
}
"""One sentence per code; the names in braces are the numbers every reason of that code carries."""

HINTS: dict[ReasonCode, str] = {
    ReasonCode.HELD: "Release it with `gangline release {id}`.",
    ReasonCode.SUSPENDED: "Resume it with `gangline release {id}`.",
    ReasonCode.PAUSED: "Let it go on with `gangline resume {id}`.",
    ReasonCode.PLACE_TAKEN: "To start it elsewhere from its checkpoint: `gangline suspend --stop {id}`, then `resume`.",
    ReasonCode.DEPENDENCY: "See that job with `gangline why {job}`.",
    ReasonCode.DEPENDENCY_FAILED: "Submit it again without the dependency, or re-run that job first.",
    ReasonCode.GROUP_LIMIT: "Wait for the group's own jobs, ask for less, or ask the group's head for more quota.",
    ReasonCode.USER_LIMIT: "Wait for your own jobs, ask for less, or ask the group's head for more quota.",
    ReasonCode.NOT_BEFORE: "Let it start earlier with `gangline edit {id} not_before=0`.",
    ReasonCode.BUDGET_EXHAUSTED: (
        "Wait for the budget's next period if it has one, or ask the administrator to raise it (`gangline quota set`)."
    ),
    ReasonCode.BUDGET_SHORT: "Give a shorter time limit, or ask the administrator to raise the budget.",
    ReasonCode.BORROW_LIMIT: "Wait for the group's own jobs, or ask the administrator for a higher borrow limit.",
    ReasonCode.NOT_LENT: "Wait for others' jobs to end; what a group does not lend stays free for it.",
    ReasonCode.SINGLETON: "See that job with `gangline why {job}`.",
    ReasonCode.ARRAY_CAP: "Raise the cap with `gangline edit {array} at_most=N`.",
    ReasonCode.WINDOW: "Give a shorter time limit, or wait until it is over: see `gangline window`.",
    ReasonCode.NOT_YET_CONSIDERED: "See what goes before it with `gangline queue`.",
    ReasonCode.INSUFFICIENT_GPUS: "Ask for fewer GPUs, accept more models, or wait.",
    ReasonCode.FRAGMENTED_GPUS: "Split the role into smaller tasks, or wait for a node to empty.",
    ReasonCode.INSUFFICIENT_GPU_MEMORY: "Ask for less memory or a larger GPU model.",
    ReasonCode.INSUFFICIENT_CPU: "Ask for fewer CPUs per task.",
    ReasonCode.INSUFFICIENT_MEMORY: "Ask for less memory per task.",
    ReasonCode.INSUFFICIENT_DEVICES: "Ask for fewer devices per task.",
    ReasonCode.INSUFFICIENT_SLICES: "Ask for a smaller profile, or wait.",
    ReasonCode.INSUFFICIENT_PLACES: (
        "Wait until some tasks end; an administrator may raise node_tasks_max of the pool's policy."
    ),
    ReasonCode.SHAPE: "Ask for smaller slices, a wider spread or smaller roles, or wait.",
    ReasonCode.TOPOLOGY: "Make the level preferred instead of required, or wait.",
    ReasonCode.NO_LABEL: (
        "An administrator labels the nodes (`kubectl label node`, labels of the agent or of the file of nodes); "
        "or make the level preferred."
    ),
    ReasonCode.NO_ELIGIBLE_NODE: "Check the node selector and tolerations, or see `gangline nodes`.",
    ReasonCode.BEHIND_HEAD: "Use a level that is not strict, or wait until the other starts or loses its place.",
    ReasonCode.POSTPONED: "It starts when such a place is free; `postpone_percent` of the pool is how good it must be.",
    ReasonCode.NO_PART_YET: "Wait; an administrator may set `newcomers_wait` of the pool's policy to false.",
    ReasonCode.LEASE_CHANGES: "Nothing to do: who does not stop soon is not waited for.",
    ReasonCode.RESERVED: "Give a shorter time limit so that it can be backfilled.",
    ReasonCode.LIMIT_KEPT: "Give a shorter time limit, or ask for no more than the other job leaves of the limit.",
    ReasonCode.WAITING_FOR_VICTIMS: "It starts by itself as soon as they are gone.",
    ReasonCode.PLACEMENT_VOIDED: "Nothing to do: the next round looks at it again.",
    ReasonCode.NEVER_FITS_NODE: "Split the role into more, smaller tasks.",
    ReasonCode.NEVER_FITS_CLUSTER: "Ask for less, or use another pool.",
    ReasonCode.NEVER_FITS_MODEL: "Accept more GPU models, or see what there is with `gangline nodes`.",
    ReasonCode.NEVER_FITS_TOPOLOGY: "Make the level preferred instead of required, or ask for a wider one.",
    ReasonCode.NEVER_FITS_CELLS: "Ask for tasks that fit the cells, or submit as opportunistic.",
    ReasonCode.NEVER_FITS_LIMIT: "Ask for less, or ask for a higher limit.",
    ReasonCode.NEVER_FITS_BUDGET: "Give a shorter time limit, ask for less, or ask for a larger budget.",
    ReasonCode.PRIORITY_BOUND: "Submit it with at most that; heads may raise it then (`gangline edit`).",
    ReasonCode.LEVEL_BOUND: "Choose another level.",
    ReasonCode.DEADLINE: "Submit it again with a later deadline or a shorter time limit.",
    ReasonCode.KILLED: "Its program may do that (`kill $PPID`), or want of memory; `gangline release {id}` tries anew.",
    ReasonCode.UNKNOWN_GROUP: "See the groups with `gangline quota`; `gangline quota set GROUP --create` makes one.",
    ReasonCode.UNKNOWN_USER: "The group's head or an administrator adds it: `gangline quota user GROUP USER --create`.",
    ReasonCode.CLOSING: "Submit to another group; see the groups with `gangline quota`.",
    ReasonCode.UNKNOWN_POOL: "See the pools with `gangline policy`.",
    ReasonCode.UNKNOWN_LEVEL: "See the levels with `gangline policy`.",
    ReasonCode.UNKNOWN_CELL: "See the pool's pinned cells in the policy file; opportunistic jobs have none.",
    ReasonCode.UNKNOWN_DEPENDENCY: "Check the number with `gangline show {job}`.",
    ReasonCode.NAME_TAKEN: "Choose another name, wait for the other (`singleton: true`), or `gangline cancel {job}`.",
    ReasonCode.QUEUE_FULL: "Wait until some of these jobs have ended, or cancel some.",
    ReasonCode.QUEUE_TOO_SMALL: "Submit it in parts, each when the one before has ended.",
    ReasonCode.SUBMIT_RATE: "Wait a minute; jobs of one batch count one by one.",
    ReasonCode.UNDER_USED: "Use the GPUs or give them back; `gangline show {id}` tells how busy they were.",
    ReasonCode.TRESPASSED: "Use the GPUs that CUDA_VISIBLE_DEVICES names, and leave the variable as it is.",
    ReasonCode.TIME_LIMIT_TOO_LONG: "Give a shorter time limit, and save checkpoints to go on from.",
}
"""What the reader can do about it, where there is something to do."""


class _Blank(dict[str, int | str]):
    """Missing numbers show as a question mark rather than break a sentence."""

    def __missing__(self, key: str) -> str:
        return "?"


def sentence(reason: Reason) -> str:
    """The reason as one English sentence."""
    return singular(SENTENCES[reason.code].format_map(_Blank(_readable(reason))))


def readable_numbers(reason: Reason) -> dict[str, int | str]:
    """The numbers as people read them: moments (every name that ends in _ms) as dates, thousandths of CPUs as CPUs."""
    is_cpu = reason.code == ReasonCode.INSUFFICIENT_CPU
    return {name: _shown(name, number, is_cpu=is_cpu) for name, number in reason.numbers.items()}


def hint(reason: Reason, *, job: int) -> str:
    """What the user can do, or an empty string."""
    text = HINTS.get(reason.code, "")
    if reason.code == ReasonCode.NEVER_FITS_NODE and str(reason.numbers.get("largest")) == "0":
        # Where there is none at all, no smaller task would fit either.
        text = HINTS[ReasonCode.NEVER_FITS_CLUSTER]
    if reason.code == ReasonCode.NO_ELIGIBLE_NODE:
        text = of_closed(reason.numbers) or text
    if reason.code == ReasonCode.INSUFFICIENT_GPUS and too_few(reason.numbers):
        text = TOO_FEW_HINT
    if reason.code == ReasonCode.EXIT_CODE:
        text = of_exit(reason.numbers.get("exit_code", 0))
    if reason.code == ReasonCode.NEVER_FITS_MODEL and "near" in reason.numbers:
        text = f"Did you mean {{near}}? {text}"
    return text.format_map(_Blank({"array": job, **reason.numbers, "id": job}))


def utc(at_ms: int) -> str:
    """A moment as people read it: "2026-03-01 09:30:00 UTC"."""
    try:
        return f"{datetime.fromtimestamp(at_ms // 1000, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms after 1970"


def _readable(reason: Reason) -> dict[str, int | str]:
    """The numbers as the sentence has them: some are words of it, or left out."""
    if reason.code in (ReasonCode.TOPOLOGY, ReasonCode.FRAGMENTED_GPUS):
        where = reason.numbers.get("where")
        free = _together(reason, "at its turn at most {free} were free in one")
        shown = {"things": reason.numbers.get("things", "GPUs"), "where": f" ({where})" if where else ""}
        return {**reason.numbers, **shown, **({"free": free} if reason.code == ReasonCode.TOPOLOGY else {})}
    if reason.code == ReasonCode.SHAPE:
        return {**reason.numbers, "free": _together(reason, "there are {free} now")}
    if reason.code == ReasonCode.INSUFFICIENT_GPUS:
        return {**reason.numbers, "none": "" if reason.numbers.get("total") else NONE_AT_WORK}
    if reason.code in (ReasonCode.PREEMPTED, ReasonCode.PAUSED_FOR):
        return {**reason.numbers, "rule": told_rule(reason.numbers.get("rule", "?"))}
    if reason.code == ReasonCode.HUNG:
        return {**reason.numbers, "sign": SIGNS.get(str(reason.numbers.get("sign", "")), "")}
    if reason.code == ReasonCode.NO_ELIGIBLE_NODE:
        sick = reason.numbers.get("sick")
        return {**reason.numbers, "sick": f"{sick} sick, " if sick else ""}
    shown = readable_numbers(reason)
    if reason.code == ReasonCode.DEADLINE:
        return {**shown, "stopped": "was stopped at" if reason.numbers.get("stopped") else "cannot end before"}
    if reason.code in PER_TASK:
        held, tasks = reason.numbers.get("held"), reason.numbers.get("tasks")
        return {**shown, "held": f": room for {held} of {tasks} tasks" if tasks else ""}
    return shown


def _together(reason: Reason, there_are: str) -> str:
    """How much of what is needed there is, of roles that would each find room alone how much of it together."""
    free, steps = reason.numbers.get("free"), reason.numbers.get("steps")
    if steps is not None:
        return f"; whether there are so many was not found out in {steps} steps"
    if reason.numbers.get("sorts") is not None:
        return "; whether there are so many is not worked out for so many different tasks"
    if free is None:
        return ""
    if reason.numbers.get("roles"):
        there_are = "at most {free} fit together, though each role alone would find room"
    return "; " + there_are.format(free=free)


NONE_AT_WORK = ": no node that takes work has any"
PER_TASK = frozenset({ReasonCode.INSUFFICIENT_CPU, ReasonCode.INSUFFICIENT_MEMORY, ReasonCode.INSUFFICIENT_DEVICES})
"""Reasons that are told of one task, and of several also how many of them find room."""


def _shown(name: str, number: int | str, *, is_cpu: bool) -> int | str:
    if not isinstance(number, int):
        return number.removesuffix(".") if name == "error" else number
    if is_cpu and name in ("needed", "free"):
        return f"{number / 1000:g}"
    return utc(number) if name.endswith("_ms") else number
