"""The lab: what one can learn from a log and from public traces, with the code that runs in production."""
