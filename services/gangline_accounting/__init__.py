"""What it cost: charges ended allocations and watches budgets."""
