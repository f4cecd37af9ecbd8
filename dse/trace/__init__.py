"""Trace a pruned network, read from a file of any supported format, into a workload.

detect     chooses the reader for a path
trace      counts the masks of each network state, and the nonzeros of recorded inputs
coverage   what of the network was understood, and what was skipped
write      writes the folder of the workload, all of it or nothing
"""
