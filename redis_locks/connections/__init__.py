"""From a setting to a server.

Which client, which cluster slot, and the backend that runs a lock's commands.
"""
