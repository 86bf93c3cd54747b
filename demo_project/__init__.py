"""The demo: a small bank on Redis, which compares ways to move money safely."""
