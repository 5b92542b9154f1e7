"""Is a JSON text nested deeper than any message of ours? Every reader must find the same, whatever its own stack.

The decoder gives up where the stack of its thread ends: what one process still reads, another one does not.
"""

NESTING_MAX = 64
"""Lists and objects inside each other; messages of ours have fewer than ten."""
_ALIKE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def is_too_deep(data: bytes) -> bool:
    """True also where many brackets are no pairs, which nobody reads anyway."""
    if data.count(b"[") + data.count(b"{") <= NESTING_MAX:
        return False
    text = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = b"".join(text.split(b'"')[::2]).translate(_ALIKE, delete=_NO_BRACKETS)
    for _ in range(NESTING_MAX):
        if not left:
            break
        # Each turn takes the innermost pairs away.
        left = left.replace(b"[]", b"")
    return bool(left)
