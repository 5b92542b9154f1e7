"""Composition root of the queue service."""

from gangline_kit.config import load
from gangline_kit.service import Site, run_service
from gangline_queue.app import run
from gangline_queue.config import Config


def main() -> None:
    """Run the queue service until a signal comes."""

    async def service(site: Site) -> None:
        await run(site, load(Config, "queue"))

    run_service("queue", service)


if __name__ == "__main__":
    main()
