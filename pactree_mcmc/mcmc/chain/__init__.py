"""One chain: where it starts, its steps, what is kept of its draws, its replicas, how it is stopped and goes on."""
