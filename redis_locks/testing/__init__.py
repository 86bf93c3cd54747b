"""Help for tests and demonstrations: a real server of their own."""
