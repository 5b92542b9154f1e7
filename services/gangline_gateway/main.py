"""Composition root of the gateway: `gangline-gateway`."""

from gangline_gateway.app import run
from gangline_gateway.config import Config
from gangline_kit.config import load
from gangline_kit.service import Site, run_service


def main() -> None:
    """Run one gateway until it is told to stop."""
    config = load(Config, "gateway")

    async def run_here(site: Site) -> None:
        await run(site, config)

    run_service("gateway", run_here)


if __name__ == "__main__":
    main()
