"""Composition root of the admission service."""

from gangline_admission.app import run
from gangline_admission.config import Config
from gangline_kit.config import load
from gangline_kit.service import Site, run_service


def main() -> None:
    """Run the admission service until a signal comes."""

    async def service(site: Site) -> None:
        await run(site, load(Config, "admission"))

    run_service("admission", service)


if __name__ == "__main__":
    main()
