"""Support for other packages, none of which redis_locks needs."""
