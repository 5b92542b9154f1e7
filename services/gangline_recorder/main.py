"""Composition root of the recorder service."""

from pathlib import Path

from gangline_kit.bus import Bus
from gangline_kit.config import load
from gangline_kit.service import Site, run_service
from gangline_recorder.app import run
from gangline_recorder.config import Config
from gangline_recorder.cutting import rescue


def main() -> None:
    """Run the recorder service until a signal comes."""

    async def service(site: Site) -> None:
        await run(site, load(Config, "recorder"))

    async def before(bus: Bus) -> None:
        await rescue(bus, Path(load(Config, "recorder").archive_dir))

    run_service("recorder", service, before=before)


if __name__ == "__main__":
    main()
