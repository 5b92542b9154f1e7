"""Measures Gangline against floors taken in the same run: `make bench NAME=... [OUT=file.json]`."""
