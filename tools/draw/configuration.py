"""Draws docs/configuration.md: every environment variable a service reads, from the Structs that hold them."""

import importlib
from pathlib import Path

from draw.markdown import code, document, table
from draw.structs import Field, constants, fields, summary
from gangline_kit import config as kit

SERVICES = Path(__file__).resolve().parent.parent.parent / "services"


def page() -> str:
    """The page."""
    return document(
        "Configuration",
        "Settings come from the environment, are read once at start, and an unknown or malformed one stops the "
        "process with the variable's name. `gangline up` sets what it needs by itself; nothing here is required.",
        "## Every service",
        table(HEADER, (row(field, prefix=kit.PREFIX) for field in fields(kit.KitConfig))),
        *(chapter(name) for name in services()),
        "## The command line",
        constants(kit)["CLIENT_KEYS"].meaning,
        "\n".join(f"- {code(name)}" for name in kit.CLIENT_KEYS),
    )


HEADER = ("Variable", "Type", "Default", "Meaning")


def services() -> list[str]:
    """Short names of the services that read the environment; the embedded platform is told by flags instead."""
    names = {path.parent.name.removeprefix("gangline_") for path in SERVICES.glob("gangline_*/config.py")}
    return sorted(names - {"embedded"})


def chapter(service: str) -> str:
    """One service's settings."""
    kind = importlib.import_module(f"gangline_{service}.config").Config
    rows = [row(field, prefix=f"{kit.PREFIX}{service.upper()}_") for field in fields(kind)]
    listed = table(HEADER, rows) if rows else "No settings of its own."
    return f"## {service.capitalize()}\n\n{summary(kind)}\n\n{listed}"


def row(field: Field, *, prefix: str) -> tuple[str, ...]:
    """One variable's line of the table."""
    return (code(prefix + field.name.upper()), code(field.type), code(field.default or "required"), field.meaning)
