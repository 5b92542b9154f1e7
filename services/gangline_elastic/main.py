"""Composition root of the elastic service."""

from gangline_elastic.app import run
from gangline_elastic.config import Config
from gangline_kit.config import load
from gangline_kit.service import Site, run_service


def main() -> None:
    """Run the elastic service until a signal comes."""

    async def service(site: Site) -> None:
        await run(site, load(Config, "elastic"))

    run_service("elastic", service)


if __name__ == "__main__":
    main()
