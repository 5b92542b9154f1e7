"""Group, Pool and PolicyConfig objects: what they say is asked of admission, and its answer is their status."""

import logging
from typing import Any

import msgspec

from gangline_core.cluster import Policy, Pool
from gangline_core.groups import Group
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kubernetes.api import Api, RefusedError, path_of
from gangline_kubernetes.asking import ask
from gangline_kubernetes.config import Config
from gangline_kubernetes.names import GROUP_VERSION
from gangline_kubernetes.objects import SettingObject
from gangline_kubernetes.own_writes import write_status
from gangline_kubernetes.statuses import condition, with_times
from gangline_wire.requests import Denied, Done, Request, SetGroup, SetPolicy, SetPool

log = logging.getLogger(__name__)

TICK_S = 0.25
AGAIN_S = 10.0
"""What was refused is asked again after this: what it needs, such as a group above it, may have been made."""

PLURALS = {"Group": "groups", "Pool": "pools", "PolicyConfig": "policyconfigs"}
Key = tuple[str, str]
"""Kind and name."""


class Settings:
    """What is known of every settings object, and which ones have to be looked at.

    An object says what shall be, so it is asked for once per generation; a change made elsewhere since then stays,
    until the object is changed again. Deleting an object changes nothing: jobs may be counting on what it said.
    """

    def __init__(self, site: Site, config: Config, api: Api) -> None:
        """Nothing is done before `work_for_ever`."""
        self.site = site
        self.by = f"kubernetes:{config.cluster}"
        self.api = api
        self.objects: dict[Key, SettingObject] = {}
        self.dirty: dict[Key, float] = {}
        """Objects to look at, and when."""

    def hear(self, before: SettingObject | None, after: SettingObject | None) -> None:
        """An object came, changed or went."""
        one = after or before
        assert one is not None
        key = (one.kind, one.metadata.name)
        if after is None:
            self.objects.pop(key, None)
            self.dirty.pop(key, None)
            return
        self.objects[key] = after
        if after.status.get("observedGeneration") != after.metadata.generation:
            self.dirty[key] = 0.0

    async def work_for_ever(self) -> None:
        """Ask for what is new, groups above others first."""
        while True:
            await self.site.clock.sleep(TICK_S)
            now_s = self.site.clock.monotonic_s()
            due = [key for key, at in self.dirty.items() if at <= now_s and key in self.objects]
            for key in sorted(due, key=lambda key: (self._depth(key), key)):
                del self.dirty[key]
                try:
                    await self._look(key, self.objects[key])
                except (RefusedError, TemporaryError) as error:
                    log.warning("%s %s: %s", *key, error)
                    self.dirty[key] = now_s + AGAIN_S

    def _depth(self, key: Key) -> int:
        return str(self.objects[key].spec.get("path", "")).count("/")

    async def _look(self, key: Key, found: SettingObject) -> None:
        try:
            request = self._request(found)
        except msgspec.ValidationError as error:
            await self._write(found, "Invalid", str(error))
            return
        match await ask(self.site, request):
            case Done():
                await self._write(found, "", "")
            case Denied(kind=kind, message=message):
                await self._write(found, "Invalid" if kind == "invalid" else "Denied", message)
                self.dirty[key] = self.site.clock.monotonic_s() + AGAIN_S
            case other:
                raise TemporaryError(f"admission answered {type(other).__name__}")

    def _request(self, found: SettingObject) -> Request:
        """What the object asks for.

        Raises:
            msgspec.ValidationError: a field does not fit.
        """
        name, spec = found.metadata.name, found.spec
        if found.kind == "Group":
            return SetGroup(group=msgspec.convert(spec, Group), by=self.by, why=f"object {name}")
        if found.kind == "Pool":
            return SetPool(pool=msgspec.convert({**spec, "name": name}, Pool), by=self.by)
        return SetPolicy(pool=name, policy=msgspec.convert(spec, Policy), by=self.by, why=f"object {name}")

    async def _write(self, found: SettingObject, reason: str, message: str) -> None:
        generation, now_ms = found.metadata.generation, self.site.clock.now_ms()

        def status(now: SettingObject) -> dict[str, Any]:
            """What was found out about this generation, whichever is the object's by now."""
            made = condition(
                "Accepted", holds=not reason, reason=reason or "Accepted", message=message, generation=generation
            )
            conditions = with_times([made], now.status.get("conditions") or [], now_ms)
            return {"observedGeneration": generation, "message": message, "conditions": conditions}

        path = path_of(GROUP_VERSION, PLURALS[found.kind], name=found.metadata.name)
        await write_status(self.api, path, found, status)
