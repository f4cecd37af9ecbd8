"""The options of every subcommand, by what the subcommand is about.

common         what all subcommands share: a sentence, examples, `-q` and `-v`, options without effect
evaluation     sweep, search
results        show, plot, pareto, report, explore, explain
networks       trace, io
accuracy       the group accuracy: estimate, train
descriptions   init, check, list, iso, pattern, schema
measurements   measure, calibrate, validate, r3

Only the standard library is imported, because `dse --help` must answer at once.
"""
