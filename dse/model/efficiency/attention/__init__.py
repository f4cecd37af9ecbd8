"""Fitted kernels of fused attention, softmax(Q K^T) V in one launch.

launches      launches of one kernel as arrays: sizes, FLOPs, bytes
parameters    the parameters that a fit determines, and the tilings of libraries
model         a fitted kernel, and the time of a launch as a function of the parameters
record        a fitted kernel as files store it
selection     which kernel predicts an attention: of the device itself, or of others
layers        which layers of a network are a fused attention, and their terms by its kernel
"""
