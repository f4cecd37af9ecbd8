"""Efficiency E, the share of peak * gain that is reached: a constant (`constant`) or fitted to measured kernels (`fitted`).

A constant efficiency is a factor of the rates, like the peak, so that an axis may vary it. A fitted one depends on the layer: it multiplies
the work of each term by the measured slowdown over the speed of light, and adds an overhead. Both are an `EfficiencyModel`.
"""
