"""Which jobs share the same GPUs, by which rule, and how such a company comes about."""
