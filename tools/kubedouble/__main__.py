"""`python -m kubedouble [PORT]`: a cluster of fake nodes behind a socket, to point kubectl at."""

import asyncio
import sys
import time

from kubedouble.kubelet import Kubelets
from kubedouble.server import Double
from kubedouble.web import serving


async def main(port: int) -> None:
    """Serve until interrupted."""
    double = Double(time.time)
    kubelets = Kubelets(double)
    for number in range(4):
        kubelets.add_node(f"node-{number}")
    async with serving(double, port=port) as url:
        print(f"kubectl --server {url} get nodes")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
