"""Locks and holds: acquire, nest, transfer, commit, release, and what a database transaction keeps."""
