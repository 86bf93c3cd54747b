"""Small values that every room uses: keys, modes, identities, durations, names.

None of them knows Django or a server.
"""
