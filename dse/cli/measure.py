"""`dse measure`: time dense and sparse kernels on this machine, in the form that `dse calibrate` reads."""

from argparse import Namespace
from pathlib import Path

from dse.base import output_file
from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.output_file import check_writable, replace_file
from dse.calibrate.measure import machine
from dse.calibrate.measure.jobs import CPU_SHAPES, GPU_SHAPES, TimingJob, choose_library_kernels, parse_shape, plan_jobs
from dse.calibrate.measure.libraries import LibraryKernel, has_cuda, list_kernels
from dse.calibrate.measure.run import run_jobs
from dse.calibrate.measure.table import add_dense_baselines, read_table, rows_of_device, write_table
from dse.calibrate.tables.measurement_set import load_measurements
from dse.model.efficiency.kernels.launches import Shape


def execute(options: Namespace) -> str:
    """Time every kernel at every shape, write measurements.csv and a description of an unknown device; returns their paths."""
    cuda = has_cuda() and not options.cpu
    jobs = _plan(options, cuda)
    device, is_described = machine.identify_device(cuda)
    table = options.out / "measurements.csv"
    paths = [*([] if is_described else [options.out / f"{device}.yaml"]), table]
    check_writable(*paths)
    with output_file.hold_write_lock(table):
        rows = run_jobs(table, device, jobs, machine.create_timer(cuda, options.warm), options.repeats, options.warm)
        if not rows_of_device(rows, device):
            raise InputError("no kernel could be timed", "see the reasons above")
        add_dense_baselines(rows)
        write_table(table, rows)
    if not is_described:
        _describe(paths[0], table, device, cuda)
    load_measurements(table)
    return "\n".join(map(str, paths))


def _plan(options: Namespace, cuda: bool) -> list[TimingJob]:
    """The jobs of a request; raises InputError with all errors."""
    problems, kernels, shapes = ProblemCollector(), list[LibraryKernel](), list[Shape]()
    with problems.collect():
        kernels = choose_library_kernels(list_kernels(cuda), options.kernels)
    for text in options.shapes or (GPU_SHAPES if cuda else CPU_SHAPES):
        with problems.collect():
            shapes.append(parse_shape(text))
    for density in options.densities:
        if not 0 < density < 1:
            problems.add(Problem(f"a density of {density:g} is out of range", "write a number above 0 and below 1"))
    if options.repeats < 1:
        problems.add(Problem(f"{options.repeats} repeats are out of range", "give at least one"))
    problems.raise_if_any()
    return plan_jobs(kernels, shapes, options.densities)


def _describe(path: Path, table: Path, device: str, cuda: bool) -> None:
    dense_kernels = [kernel for kernel in list_kernels(cuda) if kernel.pattern == "dense"]
    text = machine.describe_machine(device, rows_of_device(read_table(table), device), dense_kernels, cuda)
    replace_file(path, lambda target: target.write_text(text))
