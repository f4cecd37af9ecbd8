"""Efficiency E, the share of peak * gain that is reached: a constant, or fitted to measured kernels.

A constant efficiency is a factor of the rates, like the peak, so that an axis may vary it. A fitted one depends on the layer: it multiplies
the work of each term by the measured slowdown over the speed of light, and adds an overhead. Both are an `EfficiencyModel`.

protocol            what every kind of efficiency does
constant            constant efficiency: sol, r3 and capacity
fitted              fitted efficiency: each layer under each execution is a launch of a fitted kernel
launch_times        times of a launch of each layer by one kernel or another
efficiency_file     files of fitted kernels: efficiencies.yaml, attention.yaml, and those of a user
kernels/            kernels of matrix products
attention/          kernels of fused attention

What both kinds of kernels share:

parameter           a parameter: prior, bounds, estimate with its interval
device_rates        rates of the unit and the memory that the time of a launch depends on
smooth_maximum      time of two resources that overlap imperfectly
float64             functions of JAX in double precision
interval            90% intervals of predicted times, and their samples
probability         probability of a speedup above one, from its interval
assertions          plausibility checks of predictions
"""
