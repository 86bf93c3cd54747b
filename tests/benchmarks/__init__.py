"""Measured against the peers, in turn, in one run: `python -m tests.benchmarks`."""
