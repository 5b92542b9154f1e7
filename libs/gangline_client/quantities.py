"""How quantities are written for people: GPUs, memory, durations, ages and moments."""

from datetime import UTC, datetime

GPU_MILLI = 1000
MINUTE_S = 60
HOUR_S = 3600
DAY_S = 86_400
MS = 1000
GIB_MIB = 1024
TIB_MIB = 1024 * 1024


def gpus(milli: int) -> str:
    """GPU thousandths as GPUs: 2000 -> "2", 500 -> "0.5", 125 -> "0.125"."""
    return _shortest(milli, GPU_MILLI)


def cpus(milli: int) -> str:
    """CPU thousandths as CPUs: 4000 -> "4", 500 -> "0.5"."""
    return _shortest(milli, GPU_MILLI)


def memory(mib: int) -> str:
    """MiB with the largest unit that keeps it short: 16384 -> "16Gi", 1536 -> "1.5Gi", 512 -> "512Mi"."""
    if mib >= TIB_MIB:
        return f"{_one_decimal(mib / TIB_MIB)}Ti"
    if mib >= GIB_MIB:
        return f"{_one_decimal(mib / GIB_MIB)}Gi"
    return f"{mib}Mi"


def gpu_hours(value: float) -> str:
    """GPU-hours with two decimals and thousands separated: "1,234.50"."""
    return f"{value:,.2f}"


def duration(ms: int) -> str:
    """A duration in its two largest units: "45s", "3m12s", "2h05m", "4d03h"."""
    seconds = max(0, ms) // MS
    if seconds < MINUTE_S:
        return f"{seconds}s"
    if seconds < HOUR_S:
        return f"{seconds // MINUTE_S}m{seconds % MINUTE_S:02}s"
    if seconds < DAY_S:
        return f"{seconds // HOUR_S}h{seconds % HOUR_S // MINUTE_S:02}m"
    return f"{seconds // DAY_S}d{seconds % DAY_S // HOUR_S:02}h"


def age(then_ms: int, *, now_ms: int) -> str:
    """How long ago, or "-" for a moment that has not come."""
    return duration(now_ms - then_ms) if then_ms else "-"


def moment(ms: int) -> str:
    """A moment in RFC 3339, UTC, whole seconds; "-" for none."""
    if not ms:
        return "-"
    try:
        return datetime.fromtimestamp(ms // MS, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        # What is foretold may lie beyond every calendar.
        return f"{ms} ms after 1970"


def millionths(value: int) -> str:
    """A score kept in millionths: 1500000 -> "1.5"."""
    return _shortest(value, 1_000_000)


def _shortest(value: int, unit: int) -> str:
    whole, rest = divmod(abs(value), unit)
    sign = "-" if value < 0 else ""
    if not rest:
        return f"{sign}{whole}"
    digits = f"{rest:0{len(str(unit)) - 1}}".rstrip("0")
    return f"{sign}{whole}.{digits}"


def _one_decimal(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
