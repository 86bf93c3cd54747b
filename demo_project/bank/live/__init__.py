"""The live bank: its customers' accounts, a transfer by hand, and a race of many transfers at once."""
