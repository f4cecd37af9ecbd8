"""Search for accelerator designs: propose candidates, score them, keep the best, and report them.

Data flows through the modules in this order:

* `problem` (what a specification asks for, read and checked), `space` (the axes that a search may change), `feasible_variants` (pruned
  networks within the accuracy tolerance);
* `categorical_config`, `batch_evaluator`, `evaluator` (results of a batch of candidates), `over_networks` and `variant_choice` (with
  `monotonicity`: one score for several networks, each in its best variant), `uncertainty` (prediction intervals);
* `exhaustive`, `optuna_sampler` (with its `journal`), `local_search` (three ways to propose candidates);
* `archive` (the best designs so far), `simplicity` (which of equal designs is reported), `report`;
* `run` (the whole search).

The package is called `searching` because `dse.search` is a function.
"""
