"""How one change of an elastic job's size goes, and what may cause one."""
