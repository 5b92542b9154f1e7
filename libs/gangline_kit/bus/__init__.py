"""The message bus: the only importer of the NATS client."""

from gangline_kit.bus.bus import Bus, Record
from gangline_kit.bus.connection import BusConfig
from gangline_kit.bus.kv import Kv
from gangline_kit.bus.objects import Objects
from gangline_kit.bus.serving import Serving
from gangline_kit.bus.tail import LogMessage, Tail

__all__ = ["Bus", "BusConfig", "Kv", "LogMessage", "Objects", "Record", "Serving", "Tail"]
