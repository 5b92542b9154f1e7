"""Composition root of the Kubernetes service, and of the command that takes it off a cluster."""

import sys

from gangline_kit.clock import SystemClock
from gangline_kit.config import load
from gangline_kit.errors import PermanentError
from gangline_kit.ids import SystemIds
from gangline_kit.loop import run as run_to_end
from gangline_kit.service import Site, run_service
from gangline_kubernetes.api import Api
from gangline_kubernetes.app import run
from gangline_kubernetes.config import Config
from gangline_kubernetes.credentials import CredentialsError, find
from gangline_kubernetes.http import HttpTransport
from gangline_kubernetes.leaving import leave


def main() -> None:
    """Serve one cluster until a signal comes; with the argument `leave`, take our finalizers off instead."""
    if sys.argv[1:] == ["leave"]:
        run_to_end(_leave())
        return

    async def service(site: Site) -> None:
        config = load(Config, "kubernetes")
        try:
            credentials = await find(config.kubeconfig, config.context)
        except CredentialsError as error:
            raise PermanentError(str(error)) from error
        async with HttpTransport(credentials, site.clock) as transport:
            await run(site, config, transport)

    run_service("kubernetes", service)


async def _leave() -> None:
    config = load(Config, "kubernetes")
    clock = SystemClock()
    async with HttpTransport(await find(config.kubeconfig, config.context), clock) as transport:
        done = await leave(Api(transport, clock, SystemIds()))
    sys.stdout.write(f"finalizers taken off {done} objects\n")


if __name__ == "__main__":
    main()
