"""What may be nonzero (`pattern`) and how many bits it takes to say where (`format`)."""
