"""When a call is made again: how often, how long after, and what makes that safe."""

from dataclasses import dataclass

RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
"""Answers that say "not now"."""
RETRY_AFTER_S_MAX = 30.0


@dataclass(frozen=True)
class Retry:
    """How often a call is tried in all, and the pauses between, doubling."""

    attempts: int = 5
    first_delay_s: float = 0.2
    delay_s_max: float = 5.0

    def delay_s(self, attempt: int, *, retry_after_s: float | None = None) -> float:
        """Pause after the failed attempt (the first is 1); what the server asked for wins, within reason."""
        if retry_after_s is not None:
            return min(max(0.0, retry_after_s), RETRY_AFTER_S_MAX)
        return float(min(self.delay_s_max, self.first_delay_s * 2 ** (attempt - 1)))


PATIENT = Retry(attempts=60, first_delay_s=0.2, delay_s_max=5.0)
"""For followers, which outlive a restart of the platform: about five minutes."""


def retry_after(text: str | None) -> float | None:
    """Seconds in a Retry-After header; None when absent or written as a date."""
    try:
        return float(text) if text else None
    except ValueError:
        return None
