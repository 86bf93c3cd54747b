"""`redis_lock` and `Semaphore` as decorators.

Names from calls, responses to a refusal, task queues.
"""
