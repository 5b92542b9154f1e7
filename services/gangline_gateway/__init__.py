"""The HTTP door: submit, read, explain, watch; stateless, any number of replicas."""
