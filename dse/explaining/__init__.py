"""Why two designs, networks or runs differ, and why a sparse network is not as fast as its pattern allows.

The modules in the order in which data flows: `side` (what is compared), `factors` (in what two sides differ, and mixtures of them),
`mixtures` (their latencies, energies and costs, by the one evaluator), `shapley` (parts that do not depend on an order), `chosen_layers`
(what runs each layer of one side), `causes` (from the ideal to the predicted speedup), `breakdown` (layer groups and resources), `compare`
(two sides), `reach` (what would have to change), `parts` (what an explanation consists of), `sentence` and `text` (how it is
shown), `explanation` (the result), `explain` (`dse.explain`).
"""
