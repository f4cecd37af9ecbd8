"""Read tables of measurements, of kernels and of whole networks.

measurement            one row of a table of kernels
experts_measurement    one row of a table of mixtures of experts
network_measurement    one row of a table of whole networks
sanity_checks          rows that cannot be true
exclusions             rows that are left out: their limit, and a summary of their reasons
measurement_set        load tables of kernels with their devices
launches               rows grouped by kernel, as arrays
"""
