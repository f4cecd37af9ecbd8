"""Predicted against measured.

shapes      each shape by kernels that were fitted without it; errors and ranks
devices     each device by kernels that were fitted on others
networks    whole networks, of which nothing was fitted
report      the tables
"""
