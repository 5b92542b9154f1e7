"""Floor 0: what Gangline decides, as pure functions on folded state; no I/O, no clock, no randomness, no asyncio."""
