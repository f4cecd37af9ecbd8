"""I/O theory of sparse inference: how many values move between slow memory and a fast memory of M values.

A network is a graph. Computing a connection (u, v) needs its weight, the value of u and the partial sum of v in fast memory. A
read or a write of one value costs 1; computing is free (Gleinig, Ben-Nun, Hoefler 2023, arXiv 2301.01048).

network                                                     neurons and connections: W weights, N neurons, I inputs, O outputs
layered_network, generated_network, connection_table        where networks come from
schedule                                                    an order of connections as arrays for compiled loops
orders                                                      two-optimal, tile and clustered tile orders
bounds                                                      lower and upper bounds, live peak
simulate (bitset_max)                                       reads and writes of an order under MIN, LRU or FIFO
reorder (incremental_cost)                                  a better order by simulated annealing
inference                                                   run a network in an order
numba_jit                                                   the decorator that compiles the loops
"""
