"""Search for accelerator designs: propose candidates, score them, keep the best, and report them.

Data flows through the modules in this order:

* `problem` (the specification, read and checked), with `feasible_variants` (pruned networks within the accuracy tolerance, also in
  samples), `assumed_variants` (hypothetical patterns), `bracketed_networks` (the networks that brackets of a result name, with their batch
  sizes and dtypes) and `space` (the axes that a search may change), which `space_builder` builds;
* `evaluator`: scores a batch of designs. It uses `categorical_config`, `variant_results` and `batch_evaluator` (latency and energy of every
  variant), `robust` (samples of uncertain efficiencies), `network_results` with `variant_choice` and `monotonicity` (the variant that each
  network runs, and its results), `over_networks` (one figure for several networks, relative to the dense ones, and the scores),
  `uncertainty` (prediction intervals), and `accuracy_uncertainty` (how often the best design and its patterns stay the best over samples of
  uncertain accuracies);
* `samplers` (all designs, or those that Optuna proposes), `optuna_study` (its record of them, in a `journal`), `evolutionary_sampler` (the
  default one) and `local_search`: methods that propose designs, with `infeasibility` (whether there is any feasible design);
* `archive` (the best designs so far), `simplicity` (which of equal designs is reported), `analysis` (elasticities, importances, regret),
  `saved_design` (the best design as a description), and `report`, with notes on what a reader of the best design might misunderstand;
* `run`: the whole search with its warnings, as the function `dse.search`.

The package is called `searching` because `dse.search` is a function.
"""
