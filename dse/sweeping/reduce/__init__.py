"""Sweeps of any size in constant memory: piece by piece, of which only what is asked for is kept (the front, the best, a summary)."""
