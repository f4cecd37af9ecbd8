"""What a user may write in YAML: accelerators, model options, sweeps, searches and reductions, as frozen pydantic models.

accelerator          a device; compute_unit: peaks of one unit; unit_run: what it runs faster than dense; device: memory levels, overhead
                     and cost
accelerator_checks   names and costs that no accelerator may state
links                numbers that follow from others; macro_parameters: peaks, bandwidths and capacities that follow from clocks and counts
dotted_paths         the parts of a description by their dotted paths
memory_technology    width, rate, capacity, energy of a byte and area of the interface, of each memory technology
sweep                a sweep and its axes; workload_selection: which variants and inputs of a network it evaluates, with the accuracy
                     drops that are assumed of hypothetical patterns
model_options        fidelity and the other options of the latency model
stored_results       which variables and which reduction of the results are kept
search               objectives, constraints and sampler of a search; run_settings: the batch size and the dtype in brackets of a result
figures              kinds of figures, and what each needs
references           load an accelerator or workload by name, path, mapping or object
template             templates of descriptions, and copies of those in the catalogue
json_schema          the JSON Schema of each kind, for editors
"""
