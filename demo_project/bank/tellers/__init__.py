"""At most three tellers at once: processes that share the permits of a semaphore."""
