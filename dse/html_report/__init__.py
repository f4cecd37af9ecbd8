"""The page of `dse report`: results of sweeps, searches and validations in one HTML file that opens offline.

results_files       read the inputs
report              build the page of all of them: template, style, scripts (in `assets`), plotly.js and data in one file
sweep_section       what the page holds of a sweep; search_section, validation_section: of a search and a validation
answers             the first screen, in sentences
fronts              which points the page holds: fronts, best results, a sample of the others
points              columns of the points, and the grid of all results
layer_details       layers, roofs and sensitivities of single designs
sources             where every number is from
display             units that a person reads
"""
