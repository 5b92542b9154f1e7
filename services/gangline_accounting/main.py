"""Composition root of the accounting service."""

from gangline_accounting.app import run
from gangline_accounting.config import Config
from gangline_kit.config import load
from gangline_kit.service import Site, run_service


def main() -> None:
    """Run the accounting service until a signal comes."""

    async def service(site: Site) -> None:
        await run(site, load(Config, "accounting"))

    run_service("accounting", service)


if __name__ == "__main__":
    main()
