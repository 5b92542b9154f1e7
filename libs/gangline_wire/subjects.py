"""Every NATS subject, once."""

import re

LOG = "gangline.log"
API = "gangline.api"
SAMPLES = "gangline.samples"
OUTPUT = "gangline.output"
EVENTS = "gangline.events"

API_ADMISSION = f"{API}.admission"
"""Every change a user asks for; served by the admission leader only."""
API_HISTORY = f"{API}.history"
"""Questions about the past; served by the recorder."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_\-]")


def token(text: str) -> str:
    """One subject token for any text: letters, digits, - and _ stay, everything else becomes =XX (UTF-8 hex)."""
    if not text:
        return "="
    return _UNSAFE.sub(lambda match: "".join(f"={byte:02X}" for byte in match.group().encode()), text)


def log(lane: str) -> str:
    """Subject of a lane. Lane names are made of safe tokens joined by dots."""
    return f"{LOG}.{lane}"


def samples(node: str) -> str:
    """Subject of a node's samples, which are also its heartbeat."""
    return f"{SAMPLES}.{token(node)}"


def output(job: int, task: str) -> str:
    """Subject of what a task writes."""
    return f"{OUTPUT}.{job}.{token(task)}"


def event(group: str, *, job: int, name: str) -> str:
    """Subject of a public event; a group path becomes one token."""
    return f"{EVENTS}.{token(group)}.{job}.{name}"
