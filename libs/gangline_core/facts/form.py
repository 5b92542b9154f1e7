"""What all facts share."""

from msgspec import Struct


class FactBase(Struct, frozen=True, omit_defaults=True, tag_field="fact", gc=False):
    """Facts are values, and their type's name is written beside them."""
