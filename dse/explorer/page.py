"""The widgets and charts of `dse explore`, by Panel and Bokeh. Every change of a slider evaluates the model again."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import bokeh.plotting
import panel
import yaml
from bokeh.models import ColumnDataSource, FactorRange, HoverTool

from dse.base.display_units import format_quantity, select_unit
from dse.base.errors import InputError
from dse.base.output_file import replace_file
from dse.explorer.exploration import DesignResults, Exploration, evaluate_choice, quantity_text, vary
from dse.html_report.layer_details import NetworkOnDesign
from dse.plot import roofline
from dse.plot.selection import Table
from dse.plot.style import COLOURS
from dse.schema.accelerator import Accelerator
from dse.searching.saved_design import describe_variation

FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\.yaml")


def save_design(accelerator: Accelerator, chosen: Mapping[str, str], folder: Path, file_name: str) -> Path:
    """Write the design as a YAML description and return its path; raises InputError for a wrong or existing name."""
    if not FILE_NAME.fullmatch(file_name):
        raise InputError(f"'{file_name}' is not a valid file name", "write letters, digits, '_', '-' and '.', and '.yaml' at the end")
    path = folder / file_name
    if path.exists():
        raise InputError(f"'{path}' exists", "write another name")
    text = yaml.safe_dump(describe_design(accelerator, chosen, path.stem), sort_keys=False, allow_unicode=True, width=120)
    replace_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path


def describe_design(accelerator: Accelerator, chosen: Mapping[str, str], name: str) -> dict[str, object]:
    """The description of a design: of `accelerator`, with the texts of `chosen` by path where they differ from it."""
    changed = {path: text for path, text in chosen.items() if text != quantity_text(accelerator.value(path), accelerator.at(path))}
    data = describe_variation(accelerator, changed, "dse explore")
    return {**data, "name": name, "description": f"{accelerator.name} as changed with dse explore", "hypothetical": True}


SHOWN_LAYERS = 15
LEFT, RIGHT = 1.0, 1e5  # FLOP/B, ends of the roofs


class ExplorePage:
    """One visitor's page: its widgets, and the results of what they say."""

    def __init__(self, exploration: Exploration, folder: Path):
        self.exploration, self.folder = exploration, folder
        self.accelerator = _select("accelerator", list(exploration.accelerators))
        self.variant = _select("network", list(exploration.variants))
        self.batch = _select("batch", list(exploration.batches))
        self.dtype = _select("dtype", list(exploration.dtypes))
        self.sliders: dict[str, panel.widgets.DiscreteSlider] = {}
        self.slider_column = panel.Column()
        self.results = panel.pane.Markdown(name="results")
        self.file_name = panel.widgets.TextInput(name="save as", value="explored.yaml")
        self.save_button = panel.widgets.Button(name="Save as YAML", button_type="primary")
        self.message = panel.pane.Markdown("")
        self.roof_source, self.layer_source, self.bar_source = (ColumnDataSource() for _ in range(3))
        self.roofline, self.bars = self._create_roofline(), self._create_bars()
        for widget in (self.accelerator, self.dtype):
            widget.param.watch(lambda _: self.reset_sliders(), "value")
        for widget in (self.variant, self.batch):
            widget.param.watch(lambda _: self.update(), "value")
        self.save_button.on_click(lambda _: self.save())
        self.reset_sliders()

    def reset_sliders(self) -> None:
        """One slider for each number of the chosen accelerator, at its described value."""
        device = self.exploration.accelerators[self.accelerator.value]
        self.sliders = {}
        for path, options in self.exploration.sliders(self.accelerator.value, self.dtype.value).items():
            described = quantity_text(device.value(path), device.at(path))
            slider = panel.widgets.DiscreteSlider(name=path, options=options, value=described, width=320)
            slider.param.watch(lambda _: self.update(), "value")
            self.sliders[path] = slider
        self.slider_column.objects = list(self.sliders.values())
        self.update()

    @property
    def chosen(self) -> dict[str, str]:
        """The text of each slider by path."""
        return {path: slider.value for path, slider in self.sliders.items()}

    def network(self, is_varied: bool) -> NetworkOnDesign:
        device = self.exploration.accelerators[self.accelerator.value]
        design = vary(device, self.chosen) if is_varied else device
        return self.exploration.network(design, self.variant.value, self.batch.value, self.dtype.value)

    def update(self) -> None:
        """Evaluate the choice, and show its results next to those of the accelerator as described."""
        network = self.network(is_varied=True)
        results, rows = evaluate_choice(network)
        described, _ = evaluate_choice(self.network(is_varied=False))
        self.results.object = results_table(results, described, self.batch.value, bound_shares(rows))
        # Bokeh's models may change only while the document is locked, which Panel ensures for its own widgets alone.
        panel.state.execute(partial(self._update_charts, network, rows), schedule=True)

    def _update_charts(self, network: NetworkOnDesign, rows: Table) -> None:
        bandwidth = roofline.outermost_bandwidth(network.accelerator)
        roofs = [
            roof
            for roof in roofline.list_roofs(network.accelerator, network.variant, rows, network.dtype, network.options.fidelity)
            if roof.used
        ]
        lines = [[LEFT, roof.flops_per_s / bandwidth, RIGHT] for roof in roofs]
        heights = [[min(x * bandwidth, roof.flops_per_s) / 1e12 for x in line] for line, roof in zip(lines, roofs, strict=True)]
        self.roof_source.data = {"xs": lines, "ys": heights, "name": [f"{roof.unit} {roof.mode}" for roof in roofs]}
        flops = rows[rows.dense_flops > 0]
        self.layer_source.data = {
            "layer": flops.layer.tolist(),
            "bound": flops.bound.tolist(),
            "x": (flops.dense_flops / flops.bytes).tolist(),
            "y": (flops.dense_flops / flops.latency / 1e12).tolist(),
            "size": (6 + 50 * (flops.latency / rows.latency.sum()) ** 0.5).tolist(),
        }
        longest = rows.sort_values("latency", ascending=False).head(SHOWN_LAYERS)
        unit = select_unit("s", longest.latency.to_numpy())
        self.bar_source.data = {
            "time": unit.convert(longest.latency.to_numpy()).tolist(),
            **{name: longest[name].tolist() for name in ("layer", "bound", "execution")},
        }
        self.bars.xaxis.axis_label = unit.label("time")
        self.bars.y_range.factors = longest.layer.tolist()[::-1]

    def _create_roofline(self) -> bokeh.plotting.figure:
        figure = bokeh.plotting.figure(
            title="Roofline", x_axis_type="log", y_axis_type="log", height=380, sizing_mode="stretch_width",
            x_axis_label="operational intensity [FLOP/B]", y_axis_label="performance [TFLOP/s]",
        )  # fmt: skip
        figure.multi_line("xs", "ys", source=self.roof_source, color="black", line_width=2)
        layers = figure.scatter("x", "y", size="size", source=self.layer_source, color=COLOURS[0], alpha=0.6)
        tips = [("layer", "@layer"), ("bound by", "@bound"), ("FLOP/B", "@x{0.0}"), ("TFLOP/s", "@y{0.00}")]
        figure.add_tools(HoverTool(renderers=[layers], tooltips=tips))
        return figure

    def _create_bars(self) -> Any:
        figure = bokeh.plotting.figure(
            title="Time of the longest layers", y_range=FactorRange(factors=["layer"]), height=380, sizing_mode="stretch_width"
        )
        figure.hbar(y="layer", right="time", height=0.7, source=self.bar_source, color=COLOURS[1])
        figure.add_tools(
            HoverTool(tooltips=[("layer", "@layer"), ("time", "@time{0.000}"), ("bound by", "@bound"), ("runs as", "@execution")])
        )
        return figure

    def save(self) -> None:
        """Write the design as YAML, and say where it is or why it was not written."""
        device = self.exploration.accelerators[self.accelerator.value]
        try:
            path = save_design(device, self.chosen, self.folder, self.file_name.value.strip())
        except InputError as error:
            self.message.object = f"Not saved: {error}"
        else:
            self.message.object = f"Saved: {path}"

    def layout(self) -> panel.Row:
        choices = panel.Column(self.accelerator, self.variant, self.batch, self.dtype, self.slider_column, width=360)
        saving = panel.Column(self.file_name, self.save_button, self.message)
        charts = panel.Column(self.results, self.roofline, self.bars, saving, sizing_mode="stretch_width")
        return panel.Row(choices, charts, sizing_mode="stretch_width")


def _select(name: str, options: Sequence[object]) -> panel.widgets.Select:
    return panel.widgets.Select(name=name, options=options, value=options[0], width=320)


def bound_shares(rows: Table) -> dict[str, float]:
    """Share of the latency that each resource sets, the largest first."""
    shares = rows.groupby("bound").latency.sum() / rows.latency.sum()
    return {str(name): float(share) for name, share in shares.sort_values(ascending=False).items()}


def results_table(results: DesignResults, described: DesignResults, batch: int, shares: dict[str, float]) -> str:
    """The results in Markdown: as chosen, as described, and their ratio."""
    rows = [
        ("latency", results.latency, described.latency, "s"),
        ("dense latency", results.dense_latency, described.dense_latency, "s"),
        ("speedup over dense", results.speedup, described.speedup, "1"),
        ("samples/s", batch / results.latency, batch / described.latency, "1"),
        ("area", results.area, described.area, "m^2"),
        ("power at full load", results.power, described.power, "W"),
    ]
    lines = ["| | as chosen | as described | ratio |", "|---|---|---|---|"]
    for name, value, before, unit in rows:
        if value is not None and before is not None:
            lines.append(f"| {name} | {format_quantity(value, unit)} | {format_quantity(before, unit)} | {value / before:.3g} |")
    limits = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return "\n".join([*lines, "", f"Time is set by {limits}."])
