"""The failover worker: three processes, one job, and buttons to kill whoever does it."""
