"""Whose going makes room for a job, at the least loss, and for whom that room is kept meanwhile."""
