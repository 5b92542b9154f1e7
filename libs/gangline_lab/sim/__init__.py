"""The simulator: a trace, a cluster and a policy run through the code that decides in production."""
