"""What there is and what is free of it: nodes, GPUs, how they hang together, and who stands on them."""
