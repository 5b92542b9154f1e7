"""Parts of the Kubernetes benchmark that run as processes of their own: the double with its nodes, and the platform."""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop

from bench.child import say_ready, until_parent_leaves
from gangline_embedded.config import PlatformConfig
from gangline_embedded.nats_users import PLATFORM_USER
from gangline_embedded.platform import Platform
from gangline_kubernetes.definitions import definitions
from kubedouble.kubelet import Kubelets
from kubedouble.server import Double
from kubedouble.web import serving

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
USER = "bench"


async def double(nodes: int) -> None:
    """An API server double whose nodes are Ready and whose pods, once bound, do nothing more."""
    server = Double(time.time)
    kubelets = Kubelets(server)
    server.store.listeners.remove(kubelets.hear)
    for index in range(nodes):
        kubelets.add_node(f"node-{index:05d}", gpus=8)
    for one in definitions():
        await server.handle("POST", CRDS, "", msgspec.json.encode(one))
    notes = {"gangline.dev/group": "", "gangline.dev/user": USER}
    body = {"metadata": {"name": "bench", "annotations": notes}}
    await server.handle("POST", "/api/v1/namespaces", "", msgspec.json.encode(body))
    async with serving(server) as url:
        say_ready({"url": url})
        await until_parent_leaves()


async def platform() -> None:
    """The embedded platform without nodes of its own, every write synced."""
    with tempfile.TemporaryDirectory(prefix="gangline-bench-") as name:
        folder = Path(name)
        config = PlatformConfig(data_dir=folder / "data", local_node=False, user=USER)
        async with Platform(config) as running:
            secret = (folder / "data" / f"nats-{PLATFORM_USER}.secret").read_text().strip()
            say_ready({"nats_url": running.nats_url, "nats_user": PLATFORM_USER, "nats_password": secret})
            await until_parent_leaves()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.kubestage", description=__doc__)
    parser.add_argument("part", choices=("double", "platform"))
    parser.add_argument("--nodes", type=int, default=1000)
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(double(given.nodes) if given.part == "double" else platform())
