"""On each machine: describes the node, runs the tasks placed on it and reports what became of them."""
