"""What an exit code tells by itself: which signal ended the program, or what its shell could not do."""

SIGNALS = {
    4: "ILL: the program met an instruction that this processor does not have",
    6: "ABRT: the program gave up by itself, often after a failed check",
    7: "BUS: the program reached into memory that is not there",
    8: "FPE: the program divided by zero",
    9: "KILL: it was killed from outside, often by the machine for want of memory",
    11: "SEGV: the program reached into memory that is not its own",
    15: "TERM: it was asked to stop",
}
"""What each signal is called, and what it tells of a program that it ended."""
SIGNAL_CODES = range(129, 193)
"""Exit codes that shells give to what a signal ended: 128 and its number."""
SHELL_CODES = {
    126: "Shells give 126 to what is there and cannot be executed.",
    127: "Shells give 127 to a command that they do not find.",
}


def of_exit(code: int | str) -> str:
    """One sentence, or nothing where the code is the program's own."""
    if code in SHELL_CODES:
        return SHELL_CODES[int(code)]
    if not isinstance(code, int) or code not in SIGNAL_CODES:
        return ""
    told = SIGNALS.get(code - 128)
    return f"{code} is what a signal leaves, {told}." if told else f"{code} is what signal {code - 128} leaves."
