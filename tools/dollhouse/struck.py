"""Which faults truly struck in a run, and not only were drawn: who was cut off had something to say, and so on.

Whatever breaks something notes it here at the moment at which it made a difference. `FAULTS` says of every fault that
is asked for how it is drawn, and by which notes it is seen to strike.
"""

from collections import Counter

from msgspec import Struct

from gangline_core import facts as f
from gangline_core.fold import Message
from gangline_core.state import State

SETTINGS = f.PolicySet | f.GroupSet | f.UserSet | f.DrainSet | f.NodeAssigned | f.PricesSet | f.PoolSet


class Fault(Struct, frozen=True):
    """How a fault comes into a run, and what has to have happened for it to count."""

    drawn: tuple[str, ...]
    """Names of `troubles.TROUBLES` and `acts.ACTS`, fields of `connection.Rates`, or of `plan.Ask` or `plan.Plan`."""
    notes: tuple[str, ...]
    counts: str
    """When it counts, in words."""


FAULTS: dict[str, Fault] = {
    "message delay": Fault(("delay", "jitter_s"), ("late",), "something was sent meanwhile and came later"),
    "duplicate": Fault(("doubled",), ("doubled",), "a message or request came twice"),
    "reorder between subjects": Fault(("jitter_s",), ("overtaken",), "a later message of another subject came first"),
    "lost connection": Fault(
        ("cut", "swallow", "flap"),
        ("cut off", "swallowed"),
        "something was to be sent, and was not or hung (also what a process that ends had begun)",
    ),
    "answer lost": Fault(("answers_lost",), ("unanswered",), "it was stored, and its writer never heard"),
    "slow consumer": Fault(("slow",), ("behind",), "more was stored while it worked on a message"),
    "full stream": Fault(("full", "nearly_full"), ("full",), "the log or another stream refused for want of room"),
    "full bucket or object store": Fault(
        ("full_store", "full_buckets"),
        ("bucket full", "store full"),
        "a snapshot, a lease or a secret was refused for want of room",
    ),
    "refused append": Fault(("refuse", "refused"), ("refused",), "something was to be stored, and was refused"),
    "servers that do not agree": Fault(("undecided",), ("undecided",), "an append hung between them"),
    "leader frozen and thawed": Fault(("freeze_leader",), ("old leader",), "another led when it woke up"),
    "leader killed": Fault(("crash_leader",), ("leader killed",), "it led"),
    "two leaders": Fault(("two_leaders",), ("two leaders",), "another led while the first lived and knew nothing"),
    "clock jump forward and back per process": Fault(
        ("clock", "wrong_start"), ("wrong clock",), "the process asked for the time meanwhile"
    ),
    "process crash at every await": Fault(("crash_at",), ("died at a wait",), "the very wait was reached"),
    "process crash": Fault(("crash",), ("died",), "it lived"),
    "process frozen": Fault(("freeze",), ("stood still",), "it came to a wait meanwhile, and stood there"),
    "restart with an empty snapshot store": Fault(
        ("no_snapshots",), ("began without snapshots",), "a process began while there was none, though there had been"
    ),
    "restart with old or broken snapshots": Fault(
        ("old_snapshots", "broken_snapshots"), ("began with bad snapshots",), "a process began while they were so"
    ),
    "node lost": Fault(("power", "crash", "cut", "swallow"), ("node lost",), "telemetry said so"),
    "node cut off but alive": Fault(("cut", "swallow"), ("node lost alive",), "lost while tasks worked on it"),
    "node flapping": Fault(("flap",), ("flapped",), "an agent lost the bus at least twice, and wanted it each time"),
    "power loss of machines": Fault(("power",), ("power lost",), "tasks lived on them"),
    "supervisors ended again and again": Fault(("reap",), ("supervisors ended",), "tasks ran on the machines"),
    "GPU failing": Fault(("gpu",), ("GPU failed",), "the agent's driver saw it and telemetry said so"),
    "agent restart": Fault(("crash", "restart", "wrong_start"), ("agent began",), "tasks lived on its machines"),
    "stuck process that ignores SIGKILL for a while": Fault(("stuck_s",), ("undead",), "it was killed and stayed"),
    "disk full": Fault(("full_disk",), ("disk full",), "the archive was to be written"),
    "archive truncated": Fault(("cut_archive",), ("archive cut",), "bytes were lost"),
    "log cut behind its snapshots": Fault(("log_keep_s",), ("log cut",), "messages were dropped from it"),
    "settings edited mid-round": Fault(
        ("policy", "limit", "user_limit", "drain", "assign", "budget", "meddle", "turns", "saves", "ordered"),
        ("settings in a round",),
        "one was stored between the opening of a round and its decision",
    ),
}


class Struck(Counter[str]):
    """How often each note was made in one run."""

    def note(self, what: str) -> None:
        """It made a difference just now."""
        self[what] += 1

    def look(self, state: State, message: Message, working: set[str]) -> None:
        """What a stored message tells; `working` are the nodes on which tasks live."""
        for fact in message.facts:
            if isinstance(fact, f.NodeLost):
                self.note("node lost")
                if fact.node in working:
                    self.note("node lost alive")
            elif isinstance(fact, f.GpuFailed):
                self.note("GPU failed")
            elif isinstance(fact, SETTINGS) and any(pool.open_round is not None for pool in state.kept.pools.values()):
                self.note("settings in a round")
