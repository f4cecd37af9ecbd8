"""The model: one equation, a module for each of its factors.

    network latency = sum over layers of count * ( min over legal executions of ( combine over resources of work / rate ) + overhead )

work        work (FLOPs), stored_weights (as one execution stores them, also by windows over an expanded k), traffic, operand_blocks and
            needed_inputs (compulsory bytes), capacity, reuse and fusion (bytes against on-chip capacity); compaction shrinks the layers
            next to structured pruning, and leaves the copies around layers whose kernels transpose, footprint is the memory that a
            network occupies, attention_scores what a unit computes and reads that leaves scores of an attention out, activation_zeros
            what it uses of activations with zeros
rate        peak * efficiency: executions (which unit may run which pattern) and memory_levels name the numbers that make up each
            rate, rates multiplies them, gain caps the speedup of a pattern; efficiency/ is constant (sol, r3) or fitted to measured
            kernels, which also have an overhead; host_time is what the host takes to launch the kernels of an eager network
terms       the work of all layers of a network under all executions, as arrays; network_terms assembles them; a WorkCache shares
            them among the designs of a search
roofline    the equation itself in JAX, over many designs; grid evaluates a sweep on jax_devices; axis_dependence, merge_layers,
            piecewise_linear makes that faster
results     evaluate, with layer_times and layer_results: one design, layer by layer; cost/: area, power and energy of a design;
            device_warning: what a reader of results should know of an accelerator
"""
