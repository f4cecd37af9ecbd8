"""The I/O theory of sparse inference: values moved between slow memory and a fast one of M values (Gleinig, Ben-Nun, Hoefler,
arXiv 2301.01048).

A connection (u, v) is one step: its weight, the finished value of u and the partial sum of v must be in fast memory. The
weight lives only in its step, so M - 1 slots hold values of neurons. A read or a write of one value costs 1.

network         neurons and connections; layered, masks, compact_growth, connections: where they come from
bounds          what no schedule can beat, and what the two-optimal one never exceeds
order           schedules without a search: destination by destination, tiled; their live peak; cluster: better tiles
simulate        what a schedule moves under LRU, FIFO or Belady's MIN
reorder         a better schedule, by simulated annealing (anneal, trial, schedule: its compiled parts)
inference       running a network in the order of a schedule
command         `dse io`
"""
