"""Which devices ResourceClaims hold, whoever allocated them: what others hold is no room, and is never given twice."""

from collections.abc import Callable, Mapping
from enum import Enum

from gangline_core.ids import TaskId
from gangline_core.job import GpuShare, Task
from gangline_core.spec import GPU_MILLI
from gangline_kit.clock import Clock
from gangline_kubernetes.api import RefusedError
from gangline_kubernetes.claim_versions import NEWEST
from gangline_kubernetes.devices import Claim, ClaimTemplate, Result
from gangline_kubernetes.watch import Key, Watched, key_of

SEEN_S_MAX = 5.0
"""A write of ours that the watch does not tell within this shows that the watch tells nothing."""
GIVEN_BACK_S_MAX = 15.0
"""A claim of a task that is over goes within this."""
GONE_S = 60.0
"""Claims of a pod that is gone are known as ours for so long."""
POLL_S = 0.005

Place = tuple[str, str]
"""Pool and name of a device."""


class Hold(Enum):
    """How a device stands for somebody who wants it."""

    FREE = "free"
    OURS_ENDING = "ours, ending"
    """A task that is over in the log still has its claim; that goes by itself."""
    TAKEN = "taken"
    """A living task of ours has it that has another GPU in the log, or needs more of this one than is left."""
    OTHERS = "others"


class Claims:
    """Every claim of the cluster, by the devices of our driver that it holds."""

    watched: Watched[Claim]

    def __init__(self, driver: str, clock: Clock, living: Callable[[], Mapping[TaskId, Task]]) -> None:
        """`living` are the log's tasks; `watched` must be set before anything is asked."""
        self._driver = driver
        self._clock = clock
        self._living = living
        self.version = NEWEST
        """In which version claims are read and written."""
        self.pods: dict[str, TaskId] = {}
        """Task of every pod of ours, by uid, for as long as a claim of it may be there."""
        self.found: dict[Key, Claim] = {}
        self.templates: dict[Key, ClaimTemplate] = {}
        self._of_pod: dict[str, dict[Key, None]] = {}
        self._holders: dict[Place, dict[str, Claim]] = {}
        self._gone: dict[str, float] = {}
        self.news: dict[Place, None] = {}
        """Devices about which a watch told something, until somebody has looked."""

    def hear(self, before: Claim | None, after: Claim | None) -> None:
        """A claim came, changed or went."""
        if before is not None:
            for place in self._places(before):
                self._holders.get(place, {}).pop(before.metadata.uid, None)
                self.news[place] = None
            for uid in before.pods:
                self._of_pod.get(uid, {}).pop(key_of(before), None)
                if not self._of_pod.get(uid):
                    self._of_pod.pop(uid, None)
            if after is None:
                self.found.pop(key_of(before), None)
        if after is not None:
            self.found[key_of(after)] = after
            for uid in after.pods:
                self._of_pod.setdefault(uid, {})[key_of(after)] = None
            for place in self._places(after):
                self._holders.setdefault(place, {})[after.metadata.uid] = after
                self.news[place] = None

    def hear_template(self, before: ClaimTemplate | None, after: ClaimTemplate | None) -> None:
        """A template of claims came, changed or went."""
        one = after or before
        assert one is not None
        if after is None:
            self.templates.pop(key_of(one), None)
        else:
            self.templates[key_of(one)] = after

    def of_pod(self, uid: str) -> list[Claim]:
        """Claims that a pod uses, or that were made for it."""
        return [self.found[key] for key in self._of_pod.get(uid, ())]

    def _places(self, claim: Claim) -> list[Place]:
        return [place_of(one) for one in claim.devices if one.driver == self._driver]

    def hold(self, place: Place, *, but: str = "", share: GpuShare | None = None) -> Hold:
        """How a device stands, apart from what the pod `but` holds of it.

        What a living task of ours holds is free in this sense, except for somebody who wants this `share` of the GPU:
        tasks have a device together only if the log says that they share it.
        """
        found, living = Hold.FREE, self._living()
        for claim in self._holders.get(place, {}).values():
            if but in claim.pods:
                continue
            tasks = [self.pods[uid] for uid in claim.pods if uid in self.pods]
            if not tasks:
                return Hold.OTHERS
            alive = [living[task] for task in tasks if task in living]
            if not alive:
                found = Hold.OURS_ENDING
            elif share is not None and not all(_have_room(one, share) for one in alive):
                return Hold.TAKEN
        return found

    def who(self, place: Place) -> str:
        """Names of the claims that hold a device and are not ours."""
        claims = self._holders.get(place, {}).values()
        return ", ".join(sorted("/".join(key_of(one)) for one in claims if not set(one.pods) & self.pods.keys()))

    async def free(self, wanted: Mapping[Place, GpuShare], pod: str) -> None:
        """Wait until nobody but the pod holds these devices.

        Raises:
            RefusedError: another claim has one, or keeps one for too long.
        """
        end_s = self._clock.monotonic_s() + GIVEN_BACK_S_MAX
        for place, share in wanted.items():
            while (hold := self.hold(place, but=pod, share=share)) is not Hold.FREE:
                if hold is Hold.TAKEN:
                    raise RefusedError(409, "Conflict", f"device {place[1]} of pool {place[0]} is another task's")
                if hold is Hold.OTHERS:
                    why = f"device {place[1]} of pool {place[0]} is allocated to claim {self.who(place)}"
                    raise RefusedError(409, "Conflict", why)
                if self._clock.monotonic_s() >= end_s:
                    raise RefusedError(409, "Conflict", f"device {place[1]} of pool {place[0]} was not given back")
                await self._clock.sleep(POLL_S)

    async def reached(self, version: str) -> None:
        """Wait until the watch has told a write of ours, and so everything that was written before it.

        Raises:
            RefusedError: it does not.
        """
        end_s = self._clock.monotonic_s() + SEEN_S_MAX
        while int(self.watched.version or 0) < int(version):
            if self._clock.monotonic_s() >= end_s:
                why = "the watch of ResourceClaims does not follow, so nobody knows who else has the devices"
                raise RefusedError(409, "Conflict", why)
            await self._clock.sleep(POLL_S)

    def forget(self, pod: str) -> None:
        """A pod of ours is gone; what it held may be seen a little longer than itself."""
        now_s = self._clock.monotonic_s()
        self._gone[pod] = now_s
        for uid, since_s in list(self._gone.items()):
            if now_s - since_s < GONE_S:
                return
            del self._gone[uid]
            self.pods.pop(uid, None)


def _have_room(task: Task, share: GpuShare) -> bool:
    """True when the log has the task on the same GPU, with room for another share beside its own."""
    mine = [one.milli for one in task.gpus if one.index == share.index]
    return bool(mine) and sum(mine) + share.milli <= GPU_MILLI


def place_of(result: Result) -> Place:
    """Where a device is."""
    return result.pool, result.device
