"""Whom a round refuses, what it remembers of that, so that equal asks cost nothing, and which refusals it records."""
