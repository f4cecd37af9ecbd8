"""From a pruned network, in whatever file, to a workload.

recognise    which reader a path needs
trace        the layers, and exact statistics of every mask
activations  how much of their inputs is not zero
report       what was understood, and what was not
write        the folder, all of it or nothing
"""
