"""Composition root of the recorder service."""

from gangline_kit.config import load
from gangline_kit.service import Site, run_service
from gangline_recorder.app import run
from gangline_recorder.config import Config


def main() -> None:
    """Run the recorder service until a signal comes."""

    async def service(site: Site) -> None:
        await run(site, load(Config, "recorder"))

    run_service("recorder", service)


if __name__ == "__main__":
    main()
