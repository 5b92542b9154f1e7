"""Where it goes: decides every opened round; the one hand on allocations."""
