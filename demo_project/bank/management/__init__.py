"""Management code of the bank."""
