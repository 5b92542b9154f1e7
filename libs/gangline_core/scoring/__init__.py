"""What an ordering looks at: waiting jobs as columns, the formula and its factors, age, levels, service so far."""
