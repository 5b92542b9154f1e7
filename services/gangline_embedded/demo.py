"""`gangline demo`: the whole platform at work on public traces and on real commands, in about two minutes.

It starts the embedded platform with a simulated cluster and this machine, submits through the HTTP API, shows how it
goes, ends by itself, and tells what happened from the log it wrote, which it then decides again byte for byte.
"""

import argparse
import asyncio
import logging
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from gangline_client.client import Client
from gangline_client.errors import ClientError
from gangline_core.groups import Group, User
from gangline_embedded import demo_real
from gangline_embedded.config import PlatformConfig
from gangline_embedded.demo_chaos import Check, check_promises, kill_bus, kill_services
from gangline_embedded.demo_plan import SPEED, DemoPlan, make_plan
from gangline_embedded.demo_real import RealResult
from gangline_embedded.demo_report import notes, read_log, replay_log, tell_end, write_page
from gangline_embedded.demo_submit import PATIENCE, Answers, set_up, submit_all
from gangline_embedded.demo_watch import Watch
from gangline_embedded.platform import Platform, is_in_use
from gangline_kit import loop
from gangline_kit.clock import Clock, SystemClock
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_kit.ids import SystemIds
from gangline_kit.nats_server import NatsServer
from gangline_lab import openb, philly
from gangline_wire.command_line import Parser

JOBS, NODES = 800, 200
OUT = Path("out/demo")
DATA = "data"
"""Folder of the platform inside the demo's."""
MARK = ".gangline-demo"
"""File that says that a folder is the demo's own, and may be emptied by the next run."""
SECONDS_MAX = 150.0
CHAOS_SECONDS_MAX = 300.0
"""The demo gives up after this time, and says so."""
ORPHAN_S = 18.0
"""Commands end by themselves when nobody of a demo that was killed looks after them for so long."""
SETTLE_S = 1.5
"""Time for the last charges to be written before the platform stops."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when everything it checks holds, 1 when not, 2 for wrong use."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.jobs < 1 or options.nodes < 3 or options.speed <= 0:
        parser.error("--jobs must be at least 1, --nodes at least 3, --speed above 0")
    try:
        return loop.run(_Demo(options).run())
    except (PermanentError, TemporaryError, ClientError, OSError) as error:
        sys.stderr.write(f"gangline demo: {error}\n")
        return 1
    except ExceptionGroup as errors:
        sys.stderr.write(f"gangline demo: {'; '.join(str(error) for error in errors.exceptions)}\n")
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError) as end:
        sys.stderr.write("\ngangline demo: stopped\n")
        return 128 + (signal.SIGINT if isinstance(end, KeyboardInterrupt) else signal.SIGTERM)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="gangline demo", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"jobs of the Philly trace (default {JOBS}, most 1000)")
    parser.add_argument("--nodes", type=int, default=NODES, help=f"machines of the openb list (default {NODES})")
    parser.add_argument("--speed", type=float, default=SPEED, help=f"arrivals so much faster (default {SPEED:g})")
    parser.add_argument("--processes", action="store_true", help="one process per service")
    parser.add_argument("--chaos", action="store_true", help="kill -9 each service in turn; implies --processes")
    parser.add_argument("--kill-nats", action="store_true", help="kill -9 the message bus and start it again")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"where to write (default {OUT})")
    parser.add_argument("--seed", type=int, default=1, help="for the choices the trace leaves open (default 1)")
    return parser


class _Demo:
    """One run of the demo."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.out: Path = options.out.absolute()
        self.data = self.out / DATA
        self.starts_file = self.out / "starts.txt"
        self.clock: Clock = SystemClock()
        self.answers = Answers()
        self.run_name = f"demo-{SystemIds().token(6)}"
        self.reals: list[RealResult] = []
        self.ended_in_time = False

    async def run(self) -> int:
        """All of it, in order; asked to end by a signal it takes all that it started with it."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _this_task().cancel)
        options = self.options
        plan = make_plan(
            philly.read_jobs(),
            openb.read_machines(),
            jobs=options.jobs,
            nodes=options.nodes,
            speed=options.speed,
            seed=options.seed,
        )
        _must_be_ours(self.out)
        # One that was killed left its server; without its files nobody would find it any more.
        await NatsServer(self.data / "nats").end_orphan()
        _make_empty(self.out)
        logging.basicConfig(filename=self.out / "demo.log", level=logging.WARNING)
        for line in notes(plan):
            _say(line)
        async with Platform(self._config(plan)) as platform:
            _say(f"The platform is up: {platform.url}\n")
            await self._play(platform, plan)
            await self.clock.sleep(SETTLE_S)
        return self._conclude(plan)

    def _config(self, plan: DemoPlan) -> PlatformConfig:
        nodes_file = self.out / "nodes.csv"
        rows = (f"{m.name},{m.cpu_milli},{m.memory_mib},{m.gpus},{m.model}" for m in plan.machines)
        nodes_file.write_text("\n".join((",".join(openb.COLUMNS), *rows)) + "\n")
        return PlatformConfig(
            data_dir=self.data,
            processes=self.options.processes or self.options.chaos,
            local_name="this-machine",
            local_pool=demo_real.POOL,
            local_orphan_s=ORPHAN_S,
            simulate=str(nodes_file),
        )

    async def _play(self, platform: Platform, plan: DemoPlan) -> None:
        """Submit everything while watching, and break what was asked to be broken."""
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(Client(platform.url, platform.token, retry=PATIENCE))
            groups = (*plan.groups, Group(path=demo_real.GROUP))
            users = (*plan.users, User(name=demo_real.USER, group=demo_real.GROUP))
            clients = {
                who: await stack.enter_async_context(Client(platform.url, token, retry=PATIENCE))
                for who, token in (await set_up(admin, groups, users)).items()
            }
            wanted = demo_real.commands(self.starts_file, chaos=self.options.chaos)
            self.answers.expected = len(plan.submissions) + len(wanted)
            watch = Watch(admin, self.answers, sys.stdout, self.clock)
            mine = clients[demo_real.GROUP, demo_real.USER]
            stack.push_async_callback(demo_real.end_all, mine)
            async with asyncio.TaskGroup() as group:
                failing = group.create_task(_fail_with(platform))
                if self.options.chaos:
                    group.create_task(kill_services(platform, watch, self.clock))
                if self.options.kill_nats:
                    group.create_task(kill_bus(platform, watch, self.clock))
                arriving = group.create_task(
                    submit_all(plan.submissions, clients, self.answers, clock=self.clock, run=self.run_name)
                )
                jobs = await demo_real.submit_commands(mine, wanted, self.answers, run=self.run_name)
                seconds_max = CHAOS_SECONDS_MAX if self.options.chaos else SECONDS_MAX
                self.ended_in_time = await watch.until_all_ended(seconds_max=seconds_max)
                failing.cancel()
                if not self.ended_in_time:
                    arriving.cancel()
            self.reals = await demo_real.results(mine, jobs)

    def _conclude(self, plan: DemoPlan) -> int:
        """Read, replay and tell the log; the exit code."""
        archive = self.data / "archive"
        chronicle, summary = read_log(archive)
        replayed = replay_log(archive)
        refused = [f"{name}: {why}" for name, why in self.answers.refused.items()]
        checks = [
            Check(
                name="everything ended by itself in time", holds=self.ended_in_time, detail=f"{summary.seconds:.0f} s"
            ),
            Check(
                name="no submission was refused", holds=not refused, detail="; ".join(refused[:3]) or "all answered 202"
            ),
            *check_promises(
                chronicle,
                self.answers,
                starts_file=self.starts_file,
                agent_folders=[self.data / "agent" / "this-machine"],
            ),
        ]
        for line in tell_end(summary, self.reals, checks, replayed):
            _say(line)
        page = self.out / "report.html"
        write_page(page, chronicle, summary, plan, replayed)
        good = (
            replayed.equal
            and summary.jobs_in == summary.jobs_out
            and all(check.holds for check in checks)
            and all(result.as_expected for result in self.reals)
        )
        _say(f"\nLog:    {archive}\nReport: {page}\n{'All is well.' if good else 'NOT ALL IS WELL, see above.'}")
        return 0 if good else 1


async def _fail_with(platform: Platform) -> None:
    """End the demo when a service of this process does."""
    await platform.failed.wait()
    raise PermanentError(f"a service failed: {platform.failure!r}")


def _must_be_ours(out: Path) -> None:
    """The folder may be emptied.

    Raises:
        PermanentError: it holds something that is not the demo's, or what a demo that runs now needs.
    """
    if is_in_use(out / DATA):
        raise PermanentError(f"a demo runs in {out}; wait until it ends, or give another folder with --out")
    if out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        raise PermanentError(f"{out} is not empty and not from a demo; give another folder with --out")


def _make_empty(out: Path) -> None:
    """Make the folder, or empty the one an earlier demo left."""
    if out.exists() and any(out.iterdir()):
        shutil.rmtree(out)
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    (out / MARK).touch()


def _this_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None, "the demo runs in a task"
    return task


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
