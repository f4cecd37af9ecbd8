"""Fitted kernels of matrix products: the time of a launch, and which kernel predicts a layer.

launches             launches of one kernel as arrays: sizes, density, bytes
parameters           the parameters that a fit determines, and the tiles of libraries
time                 time of a launch as a function of the parameters
discrepancy          what the parameters leave unexplained, by the sizes of a launch
model                a fitted kernel, which predicts the times of launches
record               a fitted kernel as files store it
population           how parameters vary over devices and libraries
transfer             kernels that were not measured on a device, predicted by those of other devices
unmeasured_patterns  kernels and efficiencies assumed for patterns that no kernel was measured with
selection            which kernel predicts an execution: measured, transferred or assumed
"""
