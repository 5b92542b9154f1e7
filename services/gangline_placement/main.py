"""Composition root of the placement service."""

from gangline_kit.config import load
from gangline_kit.service import Site, run_service
from gangline_placement.app import run
from gangline_placement.config import Config


def main() -> None:
    """Run the placement service until a signal comes."""

    async def service(site: Site) -> None:
        await run(site, load(Config, "placement"))

    run_service("placement", service)


if __name__ == "__main__":
    main()
