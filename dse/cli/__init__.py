"""The command `dse`: `entry` lists the subcommands and parses the command line, `arguments` has their options; the other modules run one
subcommand each.

compilation_cache                      keep compiled functions for the next command
completion                             names and files that a shell completes

sweep, search                          evaluate a specification
destination                            where a command writes, and what it may replace
dataset, show                          `dse plot`, `dse pareto` and `dse show` of a result
html_report, explore                   `dse report` and `dse explore`
descriptions                           `dse init`, `check`, `list`, `iso`, `pattern` and `schema`
explain                                why two designs or networks differ
trace, io                              read a pruned network
accuracy_estimate, accuracy_train      `dse accuracy estimate` and `train`
measure, calibrate, few_shapes
                                       measure kernels and fit them; choose which to measure
validate, validate_kernels             `dse validate` and `dse r3`
"""

from dse.cli.entry import main as main
