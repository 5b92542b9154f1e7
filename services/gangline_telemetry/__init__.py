"""What the GPUs say: turns samples into facts about health, loss and use."""
