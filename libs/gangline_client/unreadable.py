"""What a decoder raises over bytes that are none of what it reads: garbled, of another kind, no text, or too deep."""

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
