"""The live bank: customers' accounts, a transfer by hand, and a race of many at once."""
