"""Floor 1: what crosses a boundary - envelopes, lanes, subjects, streams, requests - as data."""
