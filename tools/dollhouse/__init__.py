"""The dollhouse: every real service on fake outside things, in one process under one virtual clock."""
