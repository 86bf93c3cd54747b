"""The settings of `REDIS_LOCKS`: their defaults, their validation and today's values."""
