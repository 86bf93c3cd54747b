"""Exactly once: a ledger holds each transfer once, though replies are lost and workers killed."""
