"""What Redis and a process agree on about a lock: acquire, lease, renewal, replication, hand-off.

`locks` drives it through a driver of `drivers`; nothing here knows Django.
"""
