"""What multiprocessors, tensor cores and memory really did between two looks, where the card measures it (Hopper on).

The driver calls it GPU Performance Monitoring: two snapshots of a card, or of a slice of it, make percentages. The
library comes in as an argument.
"""

from collections.abc import Callable
from typing import Any

from gangline_agent.nvml_ask import Ask

METRICS = {
    "engine_active_percent": 1,
    "sm_active_percent": 2,
    "sm_occupancy_percent": 3,
    "tensor_active_percent": 5,
    "dram_active_percent": 10,
}
"""Field of a sample -> number of the metric in nvml.h."""
VERSION = 1


class Gpm:
    """The last snapshot of every card and slice."""

    def __init__(self, nvml: Any) -> None:
        """Nothing looked at yet."""
        self._nvml = nvml
        self._before: dict[str, Any] = {}
        self._spare: dict[str, Any] = {}

    def forget(self) -> None:
        """The library was shut down, and its snapshots with it."""
        self._before, self._spare = {}, {}

    def of_card(self, uuid: str, handle: Any, ask: Ask) -> dict[str, int | None]:
        """A card's percentages since the last look; all None at the first one, and where nothing is measured."""
        nvml = self._nvml
        can = ask.any("gpm", lambda: nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
        said = ask.silent.pop("gpm", "Not Supported")
        if not can:
            ask.silent |= dict.fromkeys(METRICS, said)
            return dict.fromkeys(METRICS)
        return self._between(uuid, ask, lambda snapshot: nvml.nvmlGpmSampleGet(handle, snapshot))

    def of_slice(self, uuid: str, card: Any, instance: int, ask: Ask) -> dict[str, int | None]:
        """The same of a slice, by the GPU instance it is."""
        return self._between(uuid, ask, lambda snapshot: self._nvml.nvmlGpmMigSampleGet(card, instance, snapshot))

    def _between(self, uuid: str, ask: Ask, take: Callable[[Any], Any]) -> dict[str, int | None]:
        nvml, field = self._nvml, "sm_active_percent"
        now = self._spare.pop(uuid, None) or ask.any(field, lambda: nvml.nvmlGpmSampleAlloc())
        taken = None if now is None else ask.any(field, lambda: take(now))
        if taken is None:
            if now is not None:
                self._spare[uuid] = now
            said = ask.silent.get(field, "no snapshot")
            ask.silent |= dict.fromkeys(METRICS, said)
            return dict.fromkeys(METRICS)
        before, self._before[uuid] = self._before.get(uuid), now
        if before is None:
            ask.silent |= dict.fromkeys(METRICS, "after the next look")
            return dict.fromkeys(METRICS)
        self._spare[uuid] = before
        return self._percentages(before, now, ask)

    def _percentages(self, before: Any, now: Any, ask: Ask) -> dict[str, int | None]:
        nvml, found = self._nvml, dict[str, int | None]()
        told = ask.any("sm_active_percent", lambda: _compare(nvml, before, now))
        if told is None:
            ask.silent |= dict.fromkeys(METRICS, ask.silent["sm_active_percent"])
            return dict.fromkeys(METRICS)
        for k, field in enumerate(METRICS):
            one = told.metrics[k]
            found[field] = ask.percent(field, lambda one=one: one.value if one.nvmlReturn == 0 else None)  # type: ignore[misc]  # bound now
        return found


def _compare(nvml: Any, before: Any, now: Any) -> Any:
    asked = nvml.c_nvmlGpmMetricsGet_t()
    asked.version, asked.numMetrics, asked.sample1, asked.sample2 = VERSION, len(METRICS), before, now
    for k, metric in enumerate(METRICS.values()):
        asked.metrics[k].metricId = metric
    return nvml.nvmlGpmMetricsGet(asked)
