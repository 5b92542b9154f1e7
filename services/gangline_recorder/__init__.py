"""The decision log: archive with hash chain, public event feed, history."""
