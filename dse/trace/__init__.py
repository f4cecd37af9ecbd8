"""Trace a pruned network, read from a file of any supported format, into a workload.

detect     chooses the reader for a path, and gives the layers of a workload the weights of a file
trace      counts the masks of each network state
activations counts recorded inputs of layers; coverage makes a table of them
coverage   what of the network was understood, and what was skipped
write      writes the folder of the workload, all of it or nothing; its statistics are statistics_tables
"""
