"""Template filters of the bank."""
