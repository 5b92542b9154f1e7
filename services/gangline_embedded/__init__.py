"""The whole platform on one machine: a private nats-server and every service, in one process or one each."""
