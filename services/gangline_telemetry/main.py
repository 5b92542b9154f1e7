"""Composition root of the telemetry service."""

from gangline_kit.config import load
from gangline_kit.service import Site, run_service
from gangline_telemetry.app import run
from gangline_telemetry.config import Config


def main() -> None:
    """Run the telemetry service until a signal comes."""

    async def service(site: Site) -> None:
        await run(site, load(Config, "telemetry"))

    run_service("telemetry", service)


if __name__ == "__main__":
    main()
