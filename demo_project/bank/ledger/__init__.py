"""Exactly once: a ledger that holds each transfer once, though replies are lost and workers are killed."""
