"""Small values that every room uses: keys, modes, identities, durations, names; none of them knows Django or a server."""
