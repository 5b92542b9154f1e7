"""An API server double: a Kubernetes API in memory that behaves like the real one where schedulers and kubectl look."""
