"""The same bank over Django models: accounts are rows, and transfers are transactions of the database."""
