"""A whole platform in a dollhouse: every service in as many copies as asked for, agents on machines, a full disk."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gangline_accounting.app
import gangline_accounting.config
import gangline_admission.app
import gangline_admission.config
import gangline_agent.config
import gangline_elastic.app
import gangline_elastic.config
import gangline_gateway.app
import gangline_gateway.config
import gangline_placement.app
import gangline_placement.config
import gangline_queue.app
import gangline_queue.config
import gangline_recorder.app
import gangline_recorder.config
import gangline_telemetry.app
import gangline_telemetry.config
from dollhouse.connection import Rates
from dollhouse.disk import FullDisk
from dollhouse.fleet import Rack
from dollhouse.front import Front
from dollhouse.machines import INTERLEAVE, Ledger
from dollhouse.plan import COPIED, MODEL, OTHER_MODEL
from dollhouse.struck import Struck
from dollhouse.world import Process, Run, World
from gangline_core.door.sealed import vault_names
from gangline_core.facts import PolicySet, TaskStarted
from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.sharing.beside import INTERLEAVED
from gangline_kit.bus import Bus
from gangline_kit.service import Site
from gangline_recorder.cutting import rescue
from gangline_wire.streams import LEASES, SECRETS

BEGIN_S_MAX = 60.0
SEGMENT_BYTES = 12_000
"""Small enough for a run to have several."""
GUARD_S = 5.0
FOR_EVER_S = 1e9
ADMIN_TOKEN = "gl_of-the-house"


class Town(World):
    """A world in which every service lives."""

    def __init__(self, folder: Path, *, rates: Rates | None = None, seed: int = 0, log_keep_s: float = 0.0) -> None:
        """Nobody lives here yet; files go to the folder. The log keeps so much, for ever when that is 0."""
        self.log_keep_s = log_keep_s or FOR_EVER_S
        super().__init__(rates=rates, seed=seed)
        self.folder = folder
        self.archive = folder / "archive"
        self.token_file = folder / "admin-token"
        self.token_file.write_text(ADMIN_TOKEN)
        self.token_file.chmod(0o600)
        self.before["recorder"] = self._rescue
        self.disk = FullDisk()
        self.front = Front()
        self.ledger = Ledger(self.note_fault)
        self.racks: dict[str, Rack] = {}
        self.had_snapshots = False
        """Somebody took all snapshots away."""
        self.dies: Callable[[str, int], bool] = lambda name, wait: False
        """Whether a process of this name dies at this wait, where whoever may die is not named; see `deaths`."""
        self.bad_snapshots: set[str] = set()
        """Those that somebody spoilt, or put back when there were newer ones."""

    async def __aexit__(self, *about: object) -> None:
        """Everybody leaves, and the machines are switched off."""
        await super().__aexit__(*about)
        for rack in self.racks.values():
            await rack.close()

    @property
    def struck(self) -> Struck:
        """What went wrong so far and made a difference."""
        return self.server.struck

    def working_nodes(self, agent: str = "") -> set[str]:
        """Nodes on whose machines tasks live, of one agent or of all."""
        nodes = {str(node.id): rack.name for rack in self.racks.values() for node in rack.driver.described}
        lives = {str(task.node) for task in self.ledger.tasks.values()}
        return {node for node in lives if not agent or nodes[node] == agent}

    def start(self, name: str, run: Run, config: Any, *, clock_s: float = 0.0) -> None:
        """A process begins to live under this name, perhaps with what others spoilt for it."""
        if self.working_nodes(name) if name in self.racks else False:
            self.struck.note("agent began")
        if self.had_snapshots and not self.server.objects:
            self.struck.note("began without snapshots")
        if self.bad_snapshots and self.bad_snapshots >= self.server.objects.keys() > set():
            self.struck.note("began with bad snapshots")
        super().start(name, run, config, clock_s=clock_s)

    @property
    def now_ms(self) -> int:
        """The right time."""
        return self.clock.now_ms()

    async def begin(
        self, fleets: Mapping[str, Mapping[str, int]], *, copies: int = 1, doors: int = 0, cut: int = 0, models: int = 1
    ) -> None:
        """Everybody moves in; returns when every node is known. So many cards of the first node are cut.

        With two `models` of GPUs the last agent's are of the other one.
        """
        for kind, run, config in self._services():
            wanted = doors if kind == "gateway" else copies
            for copy in range(wanted if kind in COPIED else 1):
                self.start(kind if copy == 0 else f"{kind}-{copy + 1}", run, config)
        last = list(fleets)[-1]
        for name, nodes in fleets.items():
            model = OTHER_MODEL if models > 1 and name == last else MODEL
            rack = self.racks[name] = Rack(name, nodes, self.ledger, cut=cut, model=model)
            cut = 0
            self.start(name, rack.run, gangline_agent.config.Config(name=name))
        count = sum(map(len, fleets.values()))
        await self.until(lambda state: len(state.kept.nodes) == count and "lab" in state.kept.groups, BEGIN_S_MAX)

    async def crash(self, name: str) -> None:
        """A process dies without a word, and so do the connections of those whom it served."""
        await self.front.kill(name)
        await super().crash(name)

    async def stop(self, name: str) -> None:
        """A process ends as by SIGTERM: it takes no further connections."""
        self.front.leave(name)
        await super().stop(name)

    def look(self, message: Message) -> None:
        """The values that a job was given in secret are there when it starts."""
        self.struck.look(self.state, message, self.working_nodes())
        for fact in message.facts:
            if isinstance(fact, PolicySet) and fact.policy.sharing == INTERLEAVED:
                self.ledger.most = INTERLEAVE
            task = self.state.kept.tasks.get(fact.task) if isinstance(fact, TaskStarted) else None
            if task is None or task.stop:
                continue
            job = self.state.kept.jobs.get(task.job)
            if job is not None and job.spec.secrets:
                self.rules.met["has its secrets"] += 1
                names = vault_names(self.state.kept, JobId(job.array or job.id))
                if not set(names) & set(self.server.buckets[SECRETS.name].held()):
                    self.note_fault(f"job {job.id} starts without its secrets")

    def process(self, name: str) -> Process | None:
        """The process of this name, if it lives."""
        return self.processes.get(name)

    def holder_of(self, kind: str) -> str:
        """Name of the process that holds the lease of a kind of lane now; "" when nobody does."""
        bucket = self.server.buckets[LEASES.name]
        for key in bucket.held():
            entry = bucket.get(key)
            if key.partition(".")[0] == kind and entry is not None:
                holder = entry.value.decode()
                return next((name for name, each in self.processes.items() if each.site.instance == holder), "")
        return ""

    def expire_leases(self, kind: str) -> None:
        """The server forgets who leads; whoever did does not know."""
        bucket = self.server.buckets[LEASES.name]
        for key in bucket.held():
            if key.partition(".")[0] == kind:
                bucket.delete(key, None)

    async def _rescue(self, bus: Bus) -> None:
        await rescue(bus, self.archive)

    async def _record(self, site: Site, config: Any) -> None:
        await gangline_recorder.app.run(site, config, opened=self.disk.open)

    async def _serve(self, site: Site, config: Any) -> None:
        gate = self.processes[site.name].gate
        await gangline_gateway.app.run(site, config, listen=self.front.listener(site.name, gate))

    def _services(self) -> list[tuple[str, Run, Any]]:
        door = gangline_admission.config.Config(
            first_group="lab", first_user="ann", admin_token_file=str(self.token_file)
        )
        recording = gangline_recorder.config.Config(
            archive_dir=str(self.archive),
            snapshot_messages=60,
            segment_bytes=SEGMENT_BYTES,
            log_keep_s=self.log_keep_s,
            guard_s=GUARD_S,
        )
        return [
            ("admission", gangline_admission.app.run, door),
            ("queue", gangline_queue.app.run, gangline_queue.config.Config()),
            ("placement", gangline_placement.app.run, gangline_placement.config.Config()),
            ("elastic", gangline_elastic.app.run, gangline_elastic.config.Config()),
            ("accounting", gangline_accounting.app.run, gangline_accounting.config.Config()),
            ("telemetry", gangline_telemetry.app.run, gangline_telemetry.config.Config()),
            ("recorder", self._record, recording),
            ("gateway", self._serve, gangline_gateway.config.Config(port=0)),
        ]
