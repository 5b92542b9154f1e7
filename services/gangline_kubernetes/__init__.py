"""Gangline on Kubernetes: objects become jobs and facts, decisions become bound pods on named devices."""
