"""What happens to locks, told to the log, the statistics and Django's signals.

`apps` connects it.
"""
