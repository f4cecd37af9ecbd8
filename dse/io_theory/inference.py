"""Run a network connection by connection, in a given order.

A program is a stream of records (source, target, weight), read once from start to end, as are the biases. Values of neurons
are kept in registers [register, sample], which are reused once a value is dead: their number is the live peak of the order, so
that an order with a small live peak computes in cache, however large the network is.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from dse.base.errors import InputError
from dse.io_theory.network import Network
from dse.io_theory.numba_jit import jit
from dse.io_theory.orders import Order, check_order

LOAD, BEGIN, FINISH, STORE = 1, 2, 4, 8  # flags: load an input, start from a bias, apply ReLU, store an output
RECORD = np.dtype([("source", np.int32), ("target", np.int32), ("weight", np.float32), ("flags", np.int32)])
SAMPLE_GROUPS = (1, 8, 64)  # samples computed together


@dataclass(frozen=True, eq=False)
class InferenceProgram:
    """A network compiled for one order.

    `biases`, `loaded_inputs` and `stored_outputs` are in the order of the records that use them, the latter two as indices of the
    rows of `run_program`'s argument and result.
    """

    records: Shaped[np.ndarray, "connection"]
    biases: Float[np.ndarray, "computed"]
    loaded_inputs: Int[np.ndarray, "input"]
    stored_outputs: Int[np.ndarray, "output"]
    num_original_inputs: int  # before dead neurons were removed
    num_registers: int
    relu: bool


def compile_program(network: Network, order: Order) -> InferenceProgram:
    """Compile the stream of records of an order; raises InputError if it is not topological."""
    check_order(network, order)
    records = np.zeros(len(order), RECORD)
    records["weight"] = network.weight[order]
    begun, loaded, stored, num_registers = _allocate_registers(
        network.source[order], network.target[order], network.in_degree, network.out_degree, network.is_output, records
    )
    loaded_inputs = network.original_input_index[(np.cumsum(network.is_input) - 1)[loaded]]
    stored_outputs = (np.cumsum(network.is_output) - 1)[stored]
    biases = network.bias[begun]
    return InferenceProgram(records, biases, loaded_inputs, stored_outputs, network.num_original_inputs, int(num_registers), network.relu)


@jit()
def _allocate_registers(source, target, in_degree, out_degree, is_output, records):
    """Fill in registers and flags of all records; returns the neurons begun, loaded and stored, in order, and the number of registers."""
    num_neurons = len(in_degree)
    register, unused, num_unused, num_registers = np.full(num_neurons, -1, np.int32), np.empty(num_neurons, np.int32), 0, 0
    lists, counts = np.empty((3, num_neurons), np.int64), np.zeros(3, np.int64)
    remaining_in, remaining_out = in_degree.copy(), out_degree.copy()
    for step in range(len(source)):
        u, v, flags = source[step], target[step], 0
        for neuron, flag, kind in ((u, LOAD, 1), (v, BEGIN, 0)):
            if register[neuron] < 0:
                if num_unused > 0:
                    num_unused -= 1
                    register[neuron] = unused[num_unused]
                else:
                    register[neuron] = num_registers
                    num_registers += 1
                flags |= flag
                lists[kind, counts[kind]] = neuron
                counts[kind] += 1
        records[step]["source"], records[step]["target"] = register[u], register[v]
        remaining_in[v] -= 1
        remaining_out[u] -= 1
        if remaining_in[v] == 0:
            if is_output[v]:
                flags |= STORE
                lists[2, counts[2]] = v
                counts[2] += 1
            flags |= FINISH
            if out_degree[v] == 0:
                unused[num_unused], num_unused = register[v], num_unused + 1
        if remaining_out[u] == 0:
            unused[num_unused], num_unused = register[u], num_unused + 1
        records[step]["flags"] = flags
    return lists[0, : counts[0]].copy(), lists[1, : counts[1]].copy(), lists[2, : counts[2]].copy(), num_registers


def run_program(program: InferenceProgram, inputs: Float[np.ndarray, "input sample"]) -> Float[np.ndarray, "output sample"]:
    """Compute the outputs of samples, one a column.

    `inputs` has a row for every original input, also for those that were removed as dead. Raises InputError for another number.
    """
    if inputs.ndim != 2 or len(inputs) != program.num_original_inputs:
        problem = f"samples of shape {inputs.shape} for {program.num_original_inputs} inputs"
        raise InputError(problem, "give an array [input, sample]")
    outputs, start = np.empty((len(program.stored_outputs), inputs.shape[1]), np.float32), 0
    while start < inputs.shape[1]:
        samples = next(size for size in reversed(SAMPLE_GROUPS) if size <= inputs.shape[1] - start)
        group = slice(start, start + samples)
        outputs[:, group] = _run_group(program, np.ascontiguousarray(inputs[:, group], np.float32), samples)
        start += samples
    return outputs


def _run_group(program: InferenceProgram, inputs: Float[np.ndarray, "input sample"], samples: int) -> Float[np.ndarray, "output sample"]:
    values = np.empty(program.num_registers * samples, np.float32)
    outputs = np.empty(len(program.stored_outputs) * samples, np.float32)
    loop = _compile_vector_loop(samples) if samples > 1 else _run_single
    loop(
        program.records, program.biases, program.loaded_inputs, program.stored_outputs, values, inputs.ravel(), outputs, program.relu
    )  # fmt: skip
    return outputs.reshape(-1, samples)


@jit(error_model="numpy", fastmath={"contract", "nsz"})
def _run_single(records, biases, loaded_inputs, stored_outputs, values, inputs, outputs, relu: bool) -> None:
    """Run all records for one sample; the last sum stays in a CPU register, because storing and reloading it is slower than adding."""
    bias = load = store = np.uint64(0)
    one, last, total = np.uint64(1), np.uint64(0), np.float32(0)
    for step in range(np.uint64(len(records))):
        record = records[step]
        flags, source, target = record.flags, np.uint64(record.source), np.uint64(record.target)
        if target != last:
            values[last] = total
            total, last = values[target], target
        if flags & LOAD:
            values[source] = inputs[loaded_inputs[load]]
            load += one
        if flags & BEGIN:
            total = biases[bias]
            bias += one
        total += record.weight * values[source]
        if flags & STORE:
            outputs[stored_outputs[store]] = total
            store += one
        elif flags & FINISH and relu:
            total = max(total, np.float32(0))


@cache
def _compile_vector_loop(samples: int) -> Any:
    """Compile the loop over the records for a fixed number of samples, so that a register is one or a few vector registers.

    All arrays are flat and indices are unsigned: views of rows and checks for negative indices would cost more than the sums.
    """
    lanes = np.uint64(samples)

    @jit(error_model="numpy", fastmath={"contract", "nsz"})
    def run_vector(records, biases, loaded_inputs, stored_outputs, values, inputs, outputs, relu: bool) -> None:
        bias = load = store = np.uint64(0)
        one = np.uint64(1)
        for step in range(np.uint64(len(records))):
            record = records[step]
            flags, weight = record.flags, record.weight
            source, target = np.uint64(record.source) * lanes, np.uint64(record.target) * lanes
            if flags & LOAD:
                first = np.uint64(loaded_inputs[load]) * lanes
                for lane in range(lanes):
                    values[source + lane] = inputs[first + lane]
                load += one
            if flags & BEGIN:
                for lane in range(lanes):
                    values[target + lane] = biases[bias]
                bias += one
            for lane in range(lanes):
                values[target + lane] += weight * values[source + lane]
            if flags & STORE:
                first = np.uint64(stored_outputs[store]) * lanes
                for lane in range(lanes):
                    outputs[first + lane] = values[target + lane]
                store += one
            elif flags & FINISH and relu:
                for lane in range(lanes):
                    values[target + lane] = max(values[target + lane], np.float32(0))

    return run_vector
