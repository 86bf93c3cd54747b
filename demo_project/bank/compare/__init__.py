"""The comparison: worker processes, their measurements, and how a run is recorded."""
