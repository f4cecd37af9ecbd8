"""Fit kernels of matrix products to their measurements, as `dse calibrate` does.

parameters        least squares for the parameters of a kernel with known tiles; bootstrap
kernel            choice of the tiles of a kernel, then of its parameters
joint             fits with the population of similar kernels as prior
discrepancy       what the parameters leave unexplained, by the sizes of a launch
device_effects    fits of kernels with few launches, with the effect of their device in common
outliers          launches far from what all launches of their kernel explain
intervals         leave-one-shape-out residuals and 90% intervals
calibration       fits of all kernels of some tables, kept in a checkpoint
shape_selection   which few shapes to measure on a new device
checkpoint        kernels that an interrupted `dse calibrate` has fitted
export            write efficiencies.yaml
host_time         time of the host in an eager runtime, fitted to whole networks
"""
