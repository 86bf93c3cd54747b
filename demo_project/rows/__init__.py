"""The same bank over Django models: accounts are rows, transfers are database transactions."""
