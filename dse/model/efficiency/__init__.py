"""Efficiency E, the share of peak * gain that is reached: a constant (`constant`) or fitted to measured kernels (`fitted`)."""
