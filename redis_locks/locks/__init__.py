"""Locks and holds: acquire, nest, transfer, commit, release, keep in a database transaction."""
