"""Parts of the sentences of reasons that stand for one word of them: a rule, a sign."""

RULES = {
    "opportunistic": "it is opportunistic, and that job is not",
    "priority": "that job is of a higher priority or level",
    "reclaim": "that job's group takes back what it is guaranteed",
    "service": "it had more GPU time, so that job is in a queue before it",
    "slice": "its time slice is over, and that job's turn comes",
    "switch": "that job was resumed as urgent, and goes on at once",
    "lease": "by the pool's leases the room is that job's now",
    "yield": "of jobs that checkpoint, who had less GPU time or needs less still goes first",
    "packing": "both at once got less done than by turns",
}
"""By which rule a job makes way, said to its owner."""

SIGNS = {
    "idle": " (its GPUs stand still while those of the others work)",
    "collective": " (a collective operation was given up)",
}
"""What shows that a gang hangs, beside reports and heartbeats that stopped."""


def told_rule(rule: object) -> str:
    """The rule with what it means: "priority: that job is of a higher priority or level"."""
    words = RULES.get(str(rule), "")
    return f"{rule}: {words}" if words else str(rule)
