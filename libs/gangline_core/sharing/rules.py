"""Rules of a pool by which jobs share GPUs: one line each."""

from gangline_core.cluster import Policy, Pool
from gangline_core.settings.amounts import Problem
from gangline_core.sharing.beside import GUESTS, INTERLEAVED, PAIRS

RULES: dict[str, str] = {
    INTERLEAVED: "Up to four jobs of one size interleave the stages of their iterations, in leases: a matching of the "
    "largest interleaving efficiency says who with whom (Muri, SIGCOMM 2022).",
    PAIRS: "Two jobs of one size, up to 8 GPUs, until one of them ends, whose sharing scores add up to no more than 2 "
    "(0 for one that keeps no resource busier than 35 %, 1 up to 65 %, else 2); the one that comes takes no more than "
    "twice the GPU time of the other. Pairs come before GPUs of one's own (Lucid, ASPLOS 2023).",
    GUESTS: "An opportunistic job that finds no room starts on the GPUs of one that is not and keeps them less busy "
    "than 80 %, as its guest: in the time that this one leaves, and with none of it in the books. When the owner ends, "
    "the guest goes on with all of it. Who is not opportunistic takes such GPUs of one that is, which stays as a "
    "guest, before anybody is evicted (AntMan, OSDI 2020).",
}
"""Name of a policy's sharing -> who shares GPUs with whom."""


def sharing_problem(policy: Policy, pool: Pool | None) -> Problem | None:
    """What is wrong with the pool's sharing; None when nothing is."""
    if not policy.sharing:
        return None
    if policy.sharing not in RULES:
        return Problem("invalid", f"{policy.sharing!r} is none of {', '.join(sorted(RULES))}", "sharing")
    if policy.sharing == INTERLEAVED and not policy.lease_s:
        return Problem("conflict", "companies are made anew when a lease ends: set lease_s", "sharing")
    if policy.sharing == INTERLEAVED and policy.ordering == "gavel":
        return Problem("conflict", "gavel lends GPUs by model and knows of no companies", "sharing")
    if policy.sharing in (PAIRS, GUESTS) and (policy.lease_s or policy.time_slice_s or policy.packing):
        message = "who shares stays until one of them ends: leave lease_s and time_slice_s at 0 and packing off"
        return Problem("conflict", message, "sharing")
    if policy.schedulers > 1:
        return Problem("conflict", "who shares with whom is one scheduler's decision (schedulers is set)", "sharing")
    if pool is not None and (pool.cells or pool.pinned):
        return Problem("conflict", "the pool owes cells to groups, which nobody shares", "sharing")
    return None
