"""The embedded platform on a simulated cluster, with every write synced; run as a process of its own."""

import argparse
import asyncio
import tempfile
from pathlib import Path

import uvloop

from bench.child import say_ready, until_parent_leaves
from gangline_embedded.config import PlatformConfig
from gangline_embedded.nats_users import PLATFORM_USER
from gangline_embedded.platform import Platform

NODE = "bench-{index:05d},96000,786432,8,V100M32"
HEADER = "sn,cpu_milli,memory_mib,gpu,model"
POOL = "default"


async def main(nodes: int, described: Path | None) -> None:
    """Run the platform in a folder that goes away with it, until the parent leaves."""
    with tempfile.TemporaryDirectory(prefix="gangline-bench-") as name:
        folder = Path(name)
        cluster = folder / "nodes.csv"
        if described is not None:
            cluster = described
        else:
            cluster.write_text("\n".join((HEADER, *(NODE.format(index=index) for index in range(nodes)))) + "\n")
        config = PlatformConfig(
            data_dir=folder / "data", local_node=False, simulate=str(cluster), simulate_pool=POOL, user="bench"
        )
        async with Platform(config) as platform:
            secret = (folder / "data" / f"nats-{PLATFORM_USER}.secret").read_text().strip()
            say_ready(
                {
                    "url": platform.url,
                    "token": platform.token,
                    "nats_url": platform.nats_url,
                    "nats_user": PLATFORM_USER,
                    "nats_password": secret,
                }
            )
            await until_parent_leaves()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.stage", description=__doc__)
    parser.add_argument("--nodes", type=int, default=64, help="simulated machines with eight GPUs each")
    parser.add_argument("--cluster", type=Path, help="a description of the machines instead")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(arguments.nodes, arguments.cluster))
