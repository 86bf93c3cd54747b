"""What redis_locks does for packages that it does not need."""
