"""The map: which way to transfer money is best where, over accounts, latency and work inside."""
