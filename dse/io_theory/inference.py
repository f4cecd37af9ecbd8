"""Running a network connection by connection, in the order of a schedule.

A program is a stream of records (source, destination, weight), read once from end to end, as are the biases. Values of neurons
live in slots, [slot, batch], which are used again once a value is dead: as many as the order's live peak, so that an order with a
small peak computes in cache whatever the size of the network.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float

from dse.base.errors import InputError
from dse.io_theory.compiled import compiled
from dse.io_theory.network import Network
from dse.io_theory.order import Order, checked

LOAD, BEGIN, FINISH, STORE = 1, 2, 4, 8
RECORD = np.dtype([("source", np.int32), ("target", np.int32), ("weight", np.float32), ("flags", np.int32)])
LANES = (1, 8, 64)  # samples taken together


@dataclass(frozen=True, eq=False)
class Program:
    """`inputs`, `outputs`: which input is loaded, which output stored, in the order of the records that do; `biases` likewise.
    `given_inputs`: of the network before its dead neurons were removed."""

    records: np.ndarray
    biases: Float[np.ndarray, "computed"]
    inputs: np.ndarray
    outputs: np.ndarray
    given_inputs: int
    slots: int
    relu: bool


def program(network: Network, order: Order) -> Program:
    """The stream of an order; raises InputError if it is not topological."""
    checked(network, order)
    records = np.zeros(len(order), RECORD)
    records["weight"] = network.weight[order]
    into = network.in_degree
    begun, loaded, stored, slots = _assign(
        network.source[order], network.target[order], into, np.bincount(network.source, minlength=network.neurons), network.output, records
    )
    loads = network.input_place[(np.cumsum(into == 0) - 1)[loaded]]
    stores = (np.cumsum(network.output) - 1)[stored]
    return Program(records, network.bias[begun], loads, stores, network.given_inputs, int(slots), network.relu)


@compiled()
def _assign(source, target, into, out, output, records):
    """Slots and flags of every record; the neurons begun, loaded and stored, in that order; how many slots."""
    neurons = len(into)
    slot, free, spare, slots = np.full(neurons, -1, np.int32), np.empty(neurons, np.int32), 0, 0
    lists, counts = np.empty((3, neurons), np.int64), np.zeros(3, np.int64)
    into_left, out_left = into.copy(), out.copy()
    for step in range(len(source)):
        u, v, flags = source[step], target[step], 0
        for neuron, flag, kind in ((u, LOAD, 1), (v, BEGIN, 0)):
            if slot[neuron] < 0:
                if spare > 0:
                    spare -= 1
                    slot[neuron] = free[spare]
                else:
                    slot[neuron] = slots
                    slots += 1
                flags |= flag
                lists[kind, counts[kind]] = neuron
                counts[kind] += 1
        records[step]["source"], records[step]["target"] = slot[u], slot[v]
        into_left[v] -= 1
        out_left[u] -= 1
        if into_left[v] == 0:
            if output[v]:
                flags |= STORE
                lists[2, counts[2]] = v
                counts[2] += 1
            flags |= FINISH
            if out[v] == 0:
                free[spare], spare = slot[v], spare + 1
        if out_left[u] == 0:
            free[spare], spare = slot[u], spare + 1
        records[step]["flags"] = flags
    return lists[0, : counts[0]].copy(), lists[1, : counts[1]].copy(), lists[2, : counts[2]].copy(), slots


def run(program: Program, x: Float[np.ndarray, "input sample"]) -> Float[np.ndarray, "output sample"]:
    """The outputs of samples in columns, inputs without use among them; raises InputError for another number of inputs."""
    if x.ndim != 2 or len(x) != program.given_inputs:
        raise InputError(f"samples of shape {x.shape} for {program.given_inputs} inputs", "give an array [input, sample]")
    found, start = np.empty((len(program.outputs), x.shape[1]), np.float32), 0
    while start < x.shape[1]:
        lanes = next(lanes for lanes in reversed(LANES) if lanes <= x.shape[1] - start)
        here = slice(start, start + lanes)
        values, part = np.empty(program.slots * lanes, np.float32), np.ascontiguousarray(x[:, here], np.float32).ravel()
        out = np.empty(len(program.outputs) * lanes, np.float32)
        loop = _stream(lanes) if lanes > 1 else _single
        loop(program.records, program.biases, program.inputs, program.outputs, values, part, out, program.relu)
        found[:, here] = out.reshape(-1, lanes)
        start += lanes
    return found


@compiled(error_model="numpy", fastmath={"contract", "nsz"})
def _single(records, biases, inputs, outputs, values, x, found, relu):
    """The loop over the records for one sample: the last sum stays in a register, since to store it and load it again takes longer
    than to add to it."""
    bias = load = store = np.uint64(0)
    one, last, total = np.uint64(1), np.uint64(0), np.float32(0)
    for step in range(np.uint64(len(records))):
        record = records[step]
        flags, source, target = record.flags, np.uint64(record.source), np.uint64(record.target)
        if target != last:
            values[last] = total
            total, last = values[target], target
        if flags & LOAD:
            values[source] = x[inputs[load]]
            load += one
        if flags & BEGIN:
            total = biases[bias]
            bias += one
        total += record.weight * values[source]
        if flags & STORE:
            found[outputs[store]] = total
            store += one
        elif flags & FINISH and relu:
            total = max(total, np.float32(0))


@cache
def _stream(samples: int) -> Any:
    """The loop for more samples, compiled for their number, so that those of a slot are one or a few vector registers.

    All arrays are flat, and indices unsigned: views of rows, or checks for negative indices, would cost more than the sums.
    """
    lanes = np.uint64(samples)

    @compiled(error_model="numpy", fastmath={"contract", "nsz"})
    def stream(records, biases, inputs, outputs, values, x, found, relu):
        bias = load = store = np.uint64(0)
        one = np.uint64(1)
        for step in range(np.uint64(len(records))):
            record = records[step]
            flags, weight = record.flags, record.weight
            source, target = np.uint64(record.source) * lanes, np.uint64(record.target) * lanes
            if flags & LOAD:
                first = np.uint64(inputs[load]) * lanes
                for lane in range(lanes):
                    values[source + lane] = x[first + lane]
                load += one
            if flags & BEGIN:
                for lane in range(lanes):
                    values[target + lane] = biases[bias]
                bias += one
            for lane in range(lanes):
                values[target + lane] += weight * values[source + lane]
            if flags & STORE:
                first = np.uint64(outputs[store]) * lanes
                for lane in range(lanes):
                    found[first + lane] = values[target + lane]
                store += one
            elif flags & FINISH and relu:
                for lane in range(lanes):
                    values[target + lane] = max(values[target + lane], np.float32(0))

    return stream
