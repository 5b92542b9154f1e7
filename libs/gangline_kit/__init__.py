"""Floor 2: the plumbing every service shares - bus, fold, lanes, leases, clock, configuration, life, telemetry."""
