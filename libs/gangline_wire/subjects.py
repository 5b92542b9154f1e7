"""Every NATS subject, once."""

from gangline_core.ids import token as token

LOG = "gangline.log"
API = "gangline.api"
SAMPLES = "gangline.samples"
OUTPUT = "gangline.output"
EVENTS = "gangline.events"

API_ADMISSION = f"{API}.admission"
"""Every change a user asks for; served by the admission leader only."""
API_HISTORY = f"{API}.history"
"""Questions about the past; served by the recorder."""


def log(lane: str) -> str:
    """Subject of a lane. Lane names are made of safe tokens joined by dots."""
    return f"{LOG}.{lane}"


def samples(agent: str) -> str:
    """Subject of an agent's samples, which are also the heartbeat of its nodes."""
    return f"{SAMPLES}.{token(agent)}"


def output(job: int, task: str) -> str:
    """Subject of what a task writes."""
    return f"{OUTPUT}.{job}.{token(task)}"


def event(group: str, *, job: int, name: str) -> str:
    """Subject of a public event; a group path becomes one token."""
    return f"{EVENTS}.{token(group)}.{job}.{name}"
