"""The commands `compare` and `demo`."""
