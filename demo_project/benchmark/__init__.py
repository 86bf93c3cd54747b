"""Locks measured against each other on one server, in turn: what `manage.py benchmark` runs."""
