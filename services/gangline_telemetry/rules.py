"""What the signs of a GPU mean: one readable table of Xid numbers, one of counters and flags. Pure.

The numbers' meanings are NVIDIA's ("XID Errors", driver documentation): what the program itself can cause harms nobody
else; what asks for a reset or a replacement takes the card out; what announces trouble is shown and watched.
"""

from enum import StrEnum

from msgspec import Struct

from gangline_wire.samples import GpuSample


class Verdict(StrEnum):
    """How bad it is."""

    HARMLESS = "harmless"
    """The job's own doing, or nothing at all: its exit tells the rest."""
    SUSPECT = "suspect"
    """Shown and watched; the card goes on."""
    FAILED = "failed"
    """The card takes no work, and what runs on it starts again elsewhere."""


class Sign(Struct, frozen=True):
    """What a sign means."""

    verdict: Verdict
    meaning: str


H, S, F = Verdict.HARMLESS, Verdict.SUSPECT, Verdict.FAILED

XIDS: dict[int, Sign] = {
    8: Sign(H, "the program's kernel was stopped by the watchdog"),
    13: Sign(H, "the program made an illegal access or instruction"),
    31: Sign(H, "the program made an illegal memory access"),
    32: Sign(H, "the program's command stream was invalid"),
    38: Sign(S, "the driver's firmware reports an error"),
    43: Sign(H, "the program's context was stopped"),
    45: Sign(H, "the program was cleaned up after an error or its end"),
    48: Sign(F, "memory has an uncorrectable error"),
    61: Sign(F, "the card's microcontroller broke down"),
    62: Sign(F, "the card's microcontroller halted"),
    63: Sign(S, "a memory row waits to be remapped at the next reset"),
    64: Sign(F, "a memory row could not be remapped"),
    68: Sign(H, "the program's video decoder failed"),
    69: Sign(H, "the program used the graphics engine wrongly"),
    74: Sign(F, "an NVLink failed"),
    79: Sign(F, "the card has fallen off the bus"),
    92: Sign(S, "many single-bit memory errors"),
    94: Sign(S, "a memory error that hit one program only"),
    95: Sign(F, "a memory error that may have hit any program"),
    109: Sign(S, "the card was slow to switch between programs"),
    110: Sign(S, "the card reports a security fault"),
    119: Sign(F, "the card's system processor does not answer"),
    120: Sign(F, "the card's system processor broke down"),
    121: Sign(S, "the link between processors had an error"),
    136: Sign(F, "the link training failed"),
    140: Sign(F, "memory has an unrecovered error"),
    143: Sign(F, "the card could not be started"),
}
"""Xid -> what it means. One that is not listed is suspect."""
UNKNOWN = Sign(S, "an event that is not in the table")


def by_xids(xids: tuple[int, ...]) -> Sign | None:
    """The worst of these events, told with its number; None when all are harmless or there are none."""
    signs = [(XIDS.get(xid, UNKNOWN), xid) for xid in xids]
    for verdict in (F, S):
        for sign, xid in signs:
            if sign.verdict == verdict:
                return Sign(verdict, f"Xid {xid}: {sign.meaning}")
    return None


def by_flags(sample: GpuSample, before: GpuSample | None) -> Sign | None:
    """What counters and flags of a sample mean beside the one before; absent values mean nothing."""
    if sample.remap_failed:
        return Sign(F, "a memory row could not be remapped")
    if _grew(sample.ecc_uncorrected, before.ecc_uncorrected if before else None):
        return Sign(S, f"uncorrectable memory errors rose to {sample.ecc_uncorrected}")
    if sample.remap_pending:
        return Sign(S, "a memory row waits to be remapped at the next reset")
    if sample.nvlinks_down:
        return Sign(S, f"{sample.nvlinks_down} NVLinks are down")
    held = [reason for reason in sample.throttled if reason in ("hw_thermal", "hw_power_brake", "hw_slowdown")]
    if held:
        return Sign(S, f"clocks are held down: {', '.join(held)}")
    return None


def _grew(now: int | None, then: int | None) -> bool:
    return now is not None and then is not None and now > then
