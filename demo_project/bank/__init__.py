"""Accounts, transfers between them, and the comparison of transfer strategies."""
