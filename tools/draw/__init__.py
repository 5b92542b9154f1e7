"""Draws the pages of docs/ that repeat what tables in the code say, so that they cannot drift from it."""
