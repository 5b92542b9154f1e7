"""The shell around an agent: the log wakes it, it decides what its nodes need, has it done, and reports.

Whoever leads the lane agent.<name> acts; tasks run on while nobody does. Cut off from the bus for too long, the agent
stops its tasks by itself, so that they can be started elsewhere without running twice.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from gangline_agent import meeting, signs
from gangline_agent.blame import Rest
from gangline_agent.card_tests import CardTests
from gangline_agent.cgroups import Cgroups, own
from gangline_agent.config import Config
from gangline_agent.desk import Desk
from gangline_agent.fleet import FleetError, read
from gangline_agent.journal import Journal
from gangline_agent.judge import BUS_LOST_GRACE_S_MAX
from gangline_agent.lives import Surroundings
from gangline_agent.machine import own_address
from gangline_agent.nodes import Fleet, Machine, Nodes, Offers
from gangline_agent.onlooker import Onlooker
from gangline_agent.output import Caps
from gangline_agent.processes import ProcessRunner
from gangline_agent.reporter import Reporter
from gangline_agent.runner import Phase, Runner
from gangline_agent.simulated import SimulatedRunner
from gangline_agent.topology_file import Place, TopologyFileError, read_place
from gangline_agent.xids import Xids
from gangline_core.facts import ExitCause
from gangline_core.fold.own_nodes import POOL_NAME
from gangline_core.ids import JobId
from gangline_kit.carrying.sealed import sealed_values
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_kit.leader import lead
from gangline_kit.service import Site
from gangline_wire.connection import data_folder
from gangline_wire.streams import LOG, SECRETS
from gangline_wire.subjects import token

log = logging.getLogger(__name__)

CONTACT_S = 1.0
"""The agent makes sure this often that it has the bus."""
CONTACT_TIMEOUT_S = 3.0
CONTACT_PRECISION_S = 0.01
KIB, MIB = 1 << 10, 1 << 20


async def run(site: Site, config: Config) -> None:
    """Carry the configured nodes until cancelled; tasks go on then, for the next agent of this name to find.

    Raises:
        PermanentError: the nodes file cannot be read, the pool has no name, or another agent uses the data folder.
    """
    if not POOL_NAME.fullmatch(config.pool):
        raise PermanentError(f"{config.pool!r} cannot be a pool's name: use letters, digits, - and _ (--pool)")
    if config.simulate:
        await _run_simulated(site, config)
    elif config.watch_only:
        await Onlooker(site, machine_of(site, config, folder="/"), name=config.name).look_for_ever()
    else:
        await _run_machine(site, config)


async def _run_simulated(site: Site, config: Config) -> None:
    try:
        nodes = read(
            config.simulate,
            agent=config.name,
            pool=config.pool,
            most=config.simulate_nodes_max,
            rack_nodes=config.rack_nodes,
            block_racks=config.block_racks,
        )
    except FleetError as error:
        raise PermanentError(str(error)) from error
    reporter = Reporter(site, config, Fleet([replace(node, ends_alone_ms=_ends_alone_ms(config)) for node in nodes]))
    runner = SimulatedRunner(site.clock, reporter.changed, speed=config.speed, confirm=reporter.met)
    await carry(site, config, reporter, runner, renew=lambda: None)


async def _run_machine(site: Site, config: Config) -> None:
    folder = Path(config.data_dir) if config.data_dir else data_folder() / "agent" / token(config.name)
    with _only_agent(folder) as journal:
        address = config.address or await asyncio.to_thread(own_address, site.config.nats_url)
        xids = Xids(journal.root / "xids.json")
        machine = machine_of(site, config, folder=str(journal.root), address=address, xids=xids)
        reporter = Reporter(site, config, machine)
        desk = Desk(folder / "desk.json", site.clock, reporter, new_key=lambda: site.ids.token(32))
        runner = _process_runner(site, config, machine, reporter, journal, desk)
        machine.owner_of = runner.owner_of
        machine.pids_of_tasks = lambda: runner.group.by_task(list(runner.lives.values()))
        reporter.beats = lambda: signs.beats(runner.lives.values())
        reporter.stuck = lambda: signs.stuck(runner.lives.values())
        runner.renew_lease()
        await desk.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(machine.tests.run_for_ever(site.clock, machine.number_of), name="card tests")
                group.create_task(carry(site, config, reporter, runner, renew=runner.renew_lease), name="carry")
        finally:
            await desk.stop()


def machine_of(site: Site, config: Config, *, folder: str, address: str = "", xids: Xids | None = None) -> Machine:
    """The machine this agent runs on; tasks, if there are any, write into `folder`."""
    return Machine(
        name=config.name,
        pool=config.pool,
        address=address,
        labels=_labels(config.labels),
        folder=folder,
        monotonic_s=site.clock.monotonic_s,
        offers=Offers(nic_mbps=config.nic_mbps, gpus_over_network=config.remote_gpus),
        tests=CardTests(config.gpu_test, every_s=config.gpu_test_every_s, monotonic_s=site.clock.monotonic_s),
        xids=xids,
        place=_place(config),
        ends_alone_ms=_ends_alone_ms(config),
    )


def _ends_alone_ms(config: Config) -> int:
    """Cut off for so long, nothing that this agent began runs any more, whether or not it lives itself."""
    return int(1000 * (max(config.bus_lost_s, config.orphan_s) + BUS_LOST_GRACE_S_MAX))


def _place(config: Config) -> Place:
    """What the administrator's file says of this machine.

    Raises:
        PermanentError: it cannot be read.
    """
    try:
        return read_place(config.topology_file, config.name) if config.topology_file else Place()
    except TopologyFileError as error:
        raise PermanentError(str(error)) from error


def _process_runner(
    site: Site, config: Config, nodes: Nodes, reporter: Reporter, journal: Journal, desk: Desk
) -> ProcessRunner:
    secrets = site.bus.kv(SECRETS.name)

    async def append(subject: str, data: bytes, name: str, headers: dict[str, str]) -> None:
        await site.bus.append(subject, data, msg_id=name, headers=headers)
        site.metrics.count("gangline_task_output_bytes_total", len(data))

    async def secrets_of(job: JobId) -> Mapping[str, str]:
        return await sealed_values(secrets, site.follower.state, job)

    rest = Rest(site.clock.monotonic_s)
    reporter.descriptions.resting = lambda: rest.problem
    around = Surroundings(
        clock=site.clock,
        append=append,
        secrets=secrets_of,
        changed=reporter.changed,
        devices=nodes.devices,
        desk=desk.variables,
        taken=meeting.taken,
        unable=rest.note,
    )
    caps = Caps(
        head_bytes=config.output_head_mib * MIB,
        tail_bytes=config.output_tail_mib * MIB,
        bytes_per_s=config.output_kib_per_s * KIB,
    )
    cgroups = Cgroups(config.name, home=own(), state=journal.root)
    runner = ProcessRunner(journal, cgroups, around, caps=caps, lease_s=config.orphan_s)
    reporter.says_safe = runner.safe
    reporter.told_news = desk.tell_news
    return runner


async def carry(site: Site, config: Config, reporter: Reporter, runner: Runner, renew: Callable[[], None]) -> None:
    """The agent's three lives: its tasks, its lane, its watch over the bus."""
    reporter.runner = runner
    async with asyncio.TaskGroup() as group:
        group.create_task(runner.run(), name="runner")
        group.create_task(lead(site, f"agent.{token(config.name)}", reporter.work), name="lane")
        group.create_task(reporter.beat(), name="beat")
        group.create_task(_keep_contact(site, config, reporter, runner, renew), name="contact")


async def _keep_contact(
    site: Site, config: Config, reporter: Reporter, runner: Runner, renew: Callable[[], None]
) -> None:
    """Ask the bus for an answer every second; without one for too long, stop all tasks.

    Measured on the steady clock from the last question that was answered, and anew after each: short troubles do not
    add up. A bus that swallows questions gains nothing over one that refuses them: the node will be lost.
    """
    clock = site.clock
    contact_s = clock.monotonic_s()
    while True:
        asked_s = clock.monotonic_s()
        left_s = contact_s + config.bus_lost_s - asked_s
        try:
            async with asyncio.timeout(min(CONTACT_TIMEOUT_S, left_s) if left_s > 0 else CONTACT_TIMEOUT_S):
                await site.bus.last_seq(LOG.name)
            if reporter.is_mute:
                raise TemporaryError("the bus is there and stores nothing")
        except (TemporaryError, TimeoutError):
            left_s = contact_s + config.bus_lost_s - clock.monotonic_s()
            if left_s <= CONTACT_PRECISION_S:
                _stop_all(runner, away_s=config.bus_lost_s - left_s)
                left_s = CONTACT_S
        else:
            contact_s, left_s = asked_s, CONTACT_S
            renew()
        await clock.sleep(min(CONTACT_S, left_s))


def _stop_all(runner: Runner, *, away_s: float) -> None:
    living = [name for name, local in runner.known.items() if local.phase in (Phase.STARTING, Phase.RUNNING)]
    if living:
        log.error("the bus is away for %.0f s: stopping %d tasks", away_s, len(living))
    for name in living:
        runner.stop(name, ExitCause.BUS_LOST)


@contextlib.contextmanager
def _only_agent(folder: Path) -> Iterator[Journal]:
    """The journal, for one process at a time.

    Raises:
        PermanentError: another process has it.
    """
    journal = Journal(folder.expanduser())
    lock = os.open(journal.root / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield journal
    except BlockingIOError:
        raise PermanentError(f"another agent uses {journal.root}") from None
    finally:
        os.close(lock)


def _labels(text: str) -> dict[str, str]:
    """Labels from "key=value,key=value".

    Raises:
        PermanentError: one of them is no pair.
    """
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, sign, value = part.partition("=")
        if not sign or not key:
            raise PermanentError(f"label {part!r} is not key=value")
        found[key] = value
    return found
