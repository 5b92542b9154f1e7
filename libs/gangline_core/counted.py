"""So many of something, as one says it: one node, two nodes."""

import re

THINGS = {
    "nodes": "node",
    "jobs": "job",
    "tasks": "task",
    "GPUs": "GPU",
    "CPUs": "CPU",
    "places": "place",
    "slices": "slice",
    "elements": "element",
}
"""What sentences count, and what one of it is called."""
ONE = re.compile(
    rf"(?<![\w.,/:-])(?<!of )(?<!of the )1 ((?:unfinished |MIG |further |more )?)({'|'.join(THINGS)})\b( are\b)?"
)


def counted(number: int, word: str) -> str:
    """The number and the word: "1 job", "2 jobs", "3 retries"."""
    if number == 1:
        return f"1 {word}"
    return f"{number} {word[:-1]}ies" if word.endswith("y") else f"{number} {word}s"


def singular(sentence: str) -> str:
    """A sentence made for many: where a number in it came to one it speaks of one."""
    return ONE.sub(lambda found: f"1 {found[1]}{THINGS[found[2]]}{' is' if found[3] else ''}", sentence)
