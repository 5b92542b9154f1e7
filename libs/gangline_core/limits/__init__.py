"""Who may use how much: limits, guarantees and budgets along the tree of groups, and who is kept out by them."""
