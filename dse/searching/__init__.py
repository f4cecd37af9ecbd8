"""Search for accelerator designs: propose candidates, score them, keep the best, and report them.

Data flows through the modules in this order:

* `problem` (the specification, read and checked), with `feasible_variants` (pruned networks within the accuracy tolerance) and `space`
  (the axes that a search may change), which `space_builder` builds;
* `evaluator`: scores a batch of designs. It uses `categorical_config` and `batch_evaluator` (latency and energy of every variant),
  `robust` (samples of uncertain efficiencies), `variant_choice` with `monotonicity` (the variant that each network runs), `over_networks`
  and `dense_base` (one figure for several networks), and `uncertainty` (prediction intervals);
* `exhaustive`, `optuna_sampler` (with its `journal`) and `local_search`: three methods that propose designs;
* `archive` (the best designs so far), `simplicity` (which of equal designs is reported), `analysis` (elasticities, importances, regret),
  `report` and `search_warnings`;
* `run`: the whole search, as the function `dse.search`.

The package is called `searching` because `dse.search` is a function.
"""
