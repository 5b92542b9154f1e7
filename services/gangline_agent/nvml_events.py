"""Xid events of all cards, drained at each look. The library comes in as an argument."""

import ctypes
from typing import Any

from gangline_agent.nvml_ask import Ask, is_plausible

XIDS_MAX = 16
"""Events taken in per look."""
XID_EVENT = 8


class Events:
    """Registered once per card; forgotten with the library."""

    def __init__(self, nvml: Any) -> None:
        """Nothing is registered yet."""
        self._nvml = nvml
        self._set: Any = None
        self._known: dict[str, Any] = {}
        """UUID -> what a handle is called, of the cards that are registered."""
        self._deaf: dict[str, str] = {}
        """Cards whose events cannot be heard, and why."""

    def forget(self) -> None:
        """The library was shut down: register anew."""
        self._set, self._known, self._deaf = None, {}, {}

    def watch(self, uuid: str, handle: Any, ask: Ask) -> None:
        """Have the driver tell of this card's Xids, once; where it does not, `xids` is silent at every look."""
        if uuid not in self._known:
            self._register(uuid, handle, ask)
        if uuid in self._deaf:
            ask.silent["xids"] = self._deaf[uuid]

    def _register(self, uuid: str, handle: Any, ask: Ask) -> None:
        nvml = self._nvml
        self._known[uuid] = _address(handle)
        if self._set is None:
            self._set = ask.any("xids", lambda: nvml.nvmlEventSetCreate())
        if self._set is not None:
            ask.order("xids", lambda: nvml.nvmlDeviceRegisterEvents(handle, XID_EVENT, self._set))
        if "xids" in ask.silent:
            self._deaf[uuid] = ask.silent["xids"]

    def drain(self) -> dict[str, tuple[int, ...]]:
        """Xids by UUID since the last time."""
        found: dict[str, list[int]] = {}
        ask = Ask(self._nvml)
        for _ in range(XIDS_MAX if self._set is not None else 0):
            event = ask.any("event", lambda: self._nvml.nvmlEventSetWait_v2(self._set, 0))
            if not hasattr(event, "device"):
                break
            uuid, xid = self._uuid(event, ask), getattr(event, "eventData", None)
            if uuid and is_plausible(xid):
                found.setdefault(uuid, []).append(xid)
        return {uuid: tuple(xids) for uuid, xids in found.items()}

    def _uuid(self, event: Any, ask: Ask) -> str:
        """Whose event it is: by the handle, since a card that fell off the bus does not say its name any more."""
        address = _address(event.device)
        known = next((uuid for uuid, other in self._known.items() if other == address), "")
        return known or ask.text("uuid", lambda: self._nvml.nvmlDeviceGetUUID(event.device)) or ""


def _address(handle: Any) -> Any:
    """What tells handles apart: where they point to."""
    try:
        return ctypes.cast(handle, ctypes.c_void_p).value
    except (ctypes.ArgumentError, TypeError):
        return handle
