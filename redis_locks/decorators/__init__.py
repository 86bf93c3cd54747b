"""`redis_lock` and `Semaphore` as decorators: names from calls, responses to a refusal, task queues."""
