"""Dated room for whom the round could not start, and who may pass meanwhile."""
