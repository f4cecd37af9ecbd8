"use strict";
// Each function draws one chart into the element with its name as id, from a section and what the reader has chosen.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const palette = () => ["blue", "orange", "green", "pink", "yellow", "sky", "grey"].map(colour);
const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star", "pentagon", "hexagram"];
const DASHES = ["solid", "dash", "dot", "dashdot"];
const MAX_SVG_POINTS = 3000; // more are drawn by WebGL
const CONFIG = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["sendDataToCloud", "autoScale2d"] };

function axis(title, options = {}) {
  return {
    title: { text: title, standoff: 8 }, gridcolor: colour("line"), linecolor: colour("line"), zerolinecolor: colour("line"), automargin: true, ...options,
  };
}

function draw(id, traces, x, y, options = {}) {
  const element = document.getElementById(id);
  element.classList.remove("empty");
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("ink"), size: 13, family: "system-ui, sans-serif" },
    margin: { l: 60, r: 16, t: 16, b: 50 }, xaxis: x, yaxis: y, hoverlabel: { align: "left" }, uirevision: id,
    height: 420, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, hovermode: "closest",
    modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)", color: colour("grey"), activecolor: colour("ink") }, ...options, // beside the legend, not over it
  };
  return Plotly.react(element, traces, layout, CONFIG);
}

function explainEmpty(id, reason) {
  const element = document.getElementById(id);
  if (element.data) Plotly.purge(element);
  element.classList.add("empty");
  element.textContent = reason;
}

const chartText = (texts) => texts.filter((text) => text !== "").join("<br>");

function pointText(section, point) {
  const values = section.columns.filter(isNumber).slice(0, 12).map((column) => [column, textAt(column, point)]);
  return chartText([section.labels[point], ...values.filter(([, text]) => text).map(([column, text]) => `${column.label}: ${text} ${column.unit}`)]);
}

// A logarithmic axis, with few labels however wide its range is.
function logAxis(title, values, options = {}) {
  const positive = values.filter((value) => value > 0);
  const decades = positive.length ? Math.log10(Math.max(...positive) / Math.min(...positive)) : 0;
  const ticks = decades > 3 ? { dtick: Math.ceil(decades / 8) } : numberedTicks(positive);
  return axis(title, { type: "log", ...ticks, exponentformat: decades > 5 ? "power" : "none", ...options });
}

// Ticks at 1, 2 and 5 of each decade that some values span and of the next ones, each with its full number.
function numberedTicks(positive) {
  if (!positive.length) return {};
  const [first, last] = [Math.floor(Math.log10(Math.min(...positive))) - 1, Math.floor(Math.log10(Math.max(...positive))) + 1];
  const decades = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  const tickvals = decades.flatMap((decade) => [1, 2, 5].map((digit) => Number(`${digit}e${decade}`)));
  return { tickmode: "array", tickvals, ticktext: tickvals.map((value) => value.toLocaleString("en-US", { maximumSignificantDigits: 1 })) };
}

// The axis of a column over some points: logarithmic where they span more than a decade, reversed where less is better.
function objectiveAxis(section, column, points) {
  const title = column.unit ? `${column.label} [${column.unit}]` : column.label;
  const options = { autorange: section.objectives[column.name] > 0 ? "reversed" : true };
  const values = points.map((point) => column.values[point]).filter((value) => value !== null);
  const isWide = Math.min(...values) > 0 && Math.max(...values) > 10 * Math.min(...values);
  return isWide ? logAxis(title, values, options) : axis(title, options);
}

function drawPareto(section, choices, points) {
  const [x, y] = [choices.x, choices.y].map((name) => columnOf(section, name));
  const groups = [
    ["other results", points.filter((point) => !section.frontSet.has(point)), colour("grey"), 5],
    ["Pareto front", points.filter((point) => section.frontSet.has(point)), colour("orange"), 8],
    ["shown below", points.includes(choices.b) ? [choices.b] : [], colour("blue"), 14],
  ];
  const type = points.length > MAX_SVG_POINTS ? "scattergl" : "scatter";
  const traces = groups.map(([name, members, color, size], number) => ({
    type, name, mode: "markers", x: members.map((point) => x.values[point]), y: members.map((point) => y.values[point]), customdata: members,
    text: members.map((point) => pointText(section, point)), hovertemplate: "%{text}<extra></extra>",
    marker: { color: number === 2 ? "rgba(0,0,0,0)" : color, size, symbol: SYMBOLS[number === 1 ? 3 : 0], line: { color, width: number === 2 ? 3 : 0 } },
    hoverinfo: number === 2 ? "skip" : undefined, unselected: { marker: { opacity: 0.15 } },
  }));
  return draw("pareto", traces, objectiveAxis(section, x, points), objectiveAxis(section, y, points), {
    dragmode: "select", selectionrevision: choices.revision, ...(choices.brushed ? {} : { selections: [] }),
  });
}

// "90% interval 74.8 to 75.6, ", or nothing for an accuracy without an interval
function accuracyInterval(variants, index) {
  const ends = [variants.accuracy_low, variants.accuracy_high].map((values) => (values ? values[index] : null));
  return ends.includes(null) ? "" : `90% interval ${ends.map(formatNumber).join(" to ")}, `;
}

// Accuracy (or, where nobody measured it, sparsity) of every variant of the network against its speedup on the design that is shown.
function drawSparsityRoofline(section, choices) {
  const variants = section.variants;
  const speedup = section.grid && section.grid.variables.find((variable) => variable.name === "speedup");
  if (!variants || !speedup) return explainEmpty("sparsity-roofline", "The dataset has no speedups of all variants on one design.");
  const position = gridPosition(section, choices.b);
  if (position.includes(-1)) return explainEmpty("sparsity-roofline", "The design that is shown is outside the part of the grid that the page holds.");
  const place = section.grid.dims.findIndex((dim) => dim.name === "variant");
  const network = variants.workload[section.grid.dims[place].indices[position[place]]];
  const rows = section.grid.dims[place].indices.map((index, number) => ({
    index, speedup: gridValue(section.grid, speedup, position.map((at, dim) => (dim === place ? number : at))),
  })).filter(({ index }) => variants.workload[index] === network);
  const metric = variants.metric[section.grid.dims[place].indices[position[place]]]; // a network may have several: one is shown
  const measured = rows.some(({ index }) => variants.accuracy[index] !== null && variants.metric[index] === metric);
  const values = measured ? variants.accuracy : variants.sparsity;
  const curves = new Map();
  for (const row of rows.filter(({ index }) => values[index] !== null && (!measured || variants.metric[index] === metric))) {
    const names = [variants.method[row.index].replaceAll("_", " "), variants.pattern[row.index]];
    const name = [...new Set(names)].join(", "); // 'dense' has the pattern of this name
    curves.set(name, [...(curves.get(name) || []), row]);
  }
  const traces = [...curves].map(([name, members], number) => {
    const sorted = members.sort((a, b) => variants.sparsity[a.index] - variants.sparsity[b.index]);
    return {
      type: "scatter", mode: "lines+markers", name, x: sorted.map((row) => row.speedup), y: sorted.map(({ index }) => values[index]),
      text: sorted.map(({ index }) => `${name}<br>sparsity ${formatNumber(100 * variants.sparsity[index])}%<br>accuracy ${formatNumber(variants.accuracy[index])} ${variants.metric[index]} (${accuracyInterval(variants, index)}${variants.accuracy_kind[index]})`),
      hovertemplate: "%{text}<br>speedup %{x:.3g}x<extra></extra>", line: { color: palette()[number % 7], dash: DASHES[Math.floor(number / 7) % 4] },
      marker: { symbol: SYMBOLS[number % 10], size: 8 },
    };
  });
  const title = measured ? metric || "accuracy" : "sparsity (no accuracy was measured)";
  const line = { type: "line", x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1, line: { color: colour("grey"), dash: "dot" } };
  return draw("sparsity-roofline", traces, axis("speedup over dense"), axis(title), { shapes: [line] });
}

function drawRoofline(detail, state) {
  const layers = state.layers;
  const flops = layers.layer.map((_, row) => row).filter((row) => layers.dense_flops[row] > 0 && layers.bytes[row] > 0);
  if (!flops.length) return explainEmpty("roofline", "No layer of this network has FLOPs.");
  const intensity = flops.map((row) => layers.dense_flops[row] / layers.bytes[row]);
  const [left, right] = [Math.min(...intensity) / 3, Math.max(...intensity, ...state.roofs.map((roof) => roof.flops_per_s / detail.bandwidth)) * 3];
  const roofs = state.roofs.filter((roof) => roof.used || state.roofs.length < 6).map((roof) => {
    const ridge = roof.flops_per_s / detail.bandwidth;
    const x = ridge > left ? [left, ridge, right] : [left, right];
    return {
      type: "scatter", mode: "lines", name: roof.name, showlegend: false, x, y: x.map((at) => Math.min(at * detail.bandwidth, roof.flops_per_s) / 1e12),
      line: { color: roof.used ? colour("ink") : colour("grey"), width: roof.used ? 1.6 : 1, dash: roof.used ? "solid" : "dash" },
      hovertemplate: `${roof.name}: ${withUnit(roof.flops_per_s / 1e12, "TFLOP/s")}<br>ridge at ${formatNumber(ridge)} FLOP/B<extra></extra>`,
    };
  });
  const bounds = [...new Set(flops.map((row) => layers.bound[row]))].sort();
  const markers = bounds.map((bound, number) => {
    const rows = flops.filter((row) => layers.bound[row] === bound);
    return {
      type: "scatter", mode: "markers", name: `bound by ${bound.replaceAll("_", " ")}`, x: rows.map((row) => layers.dense_flops[row] / layers.bytes[row]),
      y: rows.map((row) => layers.dense_flops[row] / layers.latency[row] / 1e12),
      marker: { color: palette()[number % 7], symbol: SYMBOLS[number], opacity: 0.7, size: rows.map((row) => 6 + 50 * Math.sqrt(layers.latency[row] / state.latency)) },
      text: rows.map((row) => chartText([layers.layer[row], `${layers.count[row]} times, ${formatNumber((100 * layers.latency[row]) / state.latency)}% of the time`, `runs as ${layers.execution[row]}`, `density ${formatNumber(layers.density[row])}`])),
      hovertemplate: "%{text}<br>%{x:.3g} FLOP/B, %{y:.3g} TFLOP/s<extra></extra>",
    };
  });
  return draw("roofline", [...roofs, ...markers], logAxis("operational intensity [FLOP/B]", [left, right]), logAxis("performance [TFLOP/s]", roofs.flatMap((roof) => roof.y)));
}

// Time of the longest layers, dense and pruned.
function drawLayers(detail) {
  const rowsOf = detail.states[0].layers.layer.map((_, row) => row).slice(0, 15).reverse();
  const names = rowsOf.map((row) => detail.states[0].layers.layer[row]);
  const largest = Math.max(...detail.states.flatMap((state) => rowsOf.map((row) => state.layers.latency[row])));
  const [unit, scale] = largest < 1e-3 ? ["us", 1e6] : largest < 1 ? ["ms", 1e3] : ["s", 1];
  const traces = detail.states.map((state, number) => ({
    type: "bar", orientation: "h", name: state.label, y: names, x: rowsOf.map((row) => state.layers.latency[row] * scale),
    text: rowsOf.map((row) => `${state.layers.bound[row]}, runs as ${state.layers.execution[row]}`), textposition: "none",
    hovertemplate: `%{y}, ${state.label}: %{x:.4g} ${unit}<br>bound by %{text}<extra></extra>`,
    marker: { color: number ? colour("blue") : colour("grey"), pattern: { shape: number ? "" : "/", fgcolor: colour("panel"), bgcolor: colour("grey") } },
  }));
  return draw("layers", traces, axis(`time [${unit}]`), axis("", { tickfont: { size: 11 } }), { barmode: "group", height: 120 + 26 * names.length });
}

function drawTornado(detail) {
  if (!detail.tornado.length) return explainEmpty("tornado", "Sensitivities are stored for the best designs; choose one of them above.");
  const rows = detail.tornado.slice(0, 12).reverse();
  const step = formatNumber(100 * detail.step);
  const traces = [["low", `${step}% less`, "orange", "/"], ["high", `${step}% more`, "blue", ""]].map(([field, name, color, shape]) => ({
    type: "bar", orientation: "h", name, y: rows.map((row) => row.path), x: rows.map((row) => 100 * row[field]),
    customdata: rows.map((row) => row.value), hovertemplate: `%{y} (%{customdata}), ${name}: %{x:+.3g}% time<extra></extra>`,
    marker: { color: colour(color), pattern: { shape, fgcolor: colour("panel"), bgcolor: colour(color) } },
  }));
  const title = detail.tornado_title || "change of the time [%]";
  return draw("tornado", traces, axis(title), axis("", { tickfont: { size: 11 } }), { barmode: "overlay", height: 120 + 30 * rows.length });
}

// Places along a dim of the grid; along that of the variants only those of the network at the position.
function placesOfNetwork(section, dim, position) {
  const { name, indices } = section.grid.dims[dim];
  const places = indices.map((_, place) => place);
  if (name !== "variant" || !section.variants) return places;
  return places.filter((place) => section.variants.workload[indices[place]] === section.variants.workload[indices[position[dim]]]);
}

function drawHeatMap(section, choices) {
  const grid = section.grid;
  const varying = grid.dims.filter((dim) => dim.labels.length > 1);
  if (varying.length < 2) return explainEmpty("heat-map", "Fewer than two things vary in this dataset.");
  const position = gridPosition(section, choices.b).map((at) => Math.max(at, 0));
  const [x, y] = [choices.heatX, choices.heatY].map((name) => grid.dims.findIndex((dim) => dim.name === name));
  const variable = grid.variables.find((each) => each.name === choices.heatValue);
  const [columns, rows] = [x, y].map((dim) => placesOfNetwork(section, dim, position));
  const z = rows.map((row) => columns.map((column) => gridValue(grid, variable, position.map((at, dim) => (dim === x ? column : dim === y ? row : at)))));
  const network = section.variants ? `${section.variants.workload[grid.dims.at(-1).indices[position.at(-1)]]}, ` : "";
  const labels = (dim, places) => places.map((place) => grid.dims[dim].labels[place].replace(network, ""));
  const shape = (dim) => (grid.dims[dim].numbers ? { type: "category" } : { type: "category", tickfont: { size: 10 } });
  const trace = {
    type: "heatmap", z, x: labels(x, columns), y: labels(y, rows), colorscale: "Viridis",
    colorbar: { title: { text: variable.unit ? `${variable.label} [${variable.unit}]` : variable.label, side: "right" } },
    hovertemplate: `%{x}<br>%{y}<br>${variable.label} %{z:.4g} ${variable.unit}<extra></extra>`,
  };
  return draw("heat-map", [trace], axis(grid.dims[x].title, shape(x)), axis(grid.dims[y].title, shape(y)));
}

const MIN_PART = 1e-4; // of the larger end: smaller parts are in the numbers only

// The steps from one value to another, in the element with the given id; `ends` names both.
function drawWaterfall(id, attribution, label, ends = ["A", "B"]) {
  if (attribution.reason) return explainEmpty(id, attribution.reason);
  const largest = Math.max(Math.abs(attribution.from), Math.abs(attribution.to));
  const parts = attribution.parts.filter(([, value]) => Math.abs(value) > MIN_PART * largest);
  const names = [ends[0], ...parts.map(([name]) => name), ends[1]];
  const values = [attribution.from, ...parts.map(([, value]) => value), attribution.to];
  const trace = {
    type: "waterfall", orientation: "h", y: names, x: values, measure: ["absolute", ...parts.map(() => "relative"), "total"],
    text: values.map((value, number) => (number && number < names.length - 1 && value > 0 ? "+" : "") + formatNumber(value)), textposition: "outside", cliponaxis: false,
    increasing: { marker: { color: colour("orange") } }, decreasing: { marker: { color: colour("blue") } }, totals: { marker: { color: colour("grey") } },
    connector: { line: { color: colour("line") } }, hovertemplate: "%{y}<br>%{text}<extra></extra>",
  };
  const wrapped = names.map((name) => name.replace(/(.{28}\S*) /g, "$1<br>"));
  const lines = wrapped.reduce((sum, name) => sum + name.split("<br>").length, 0);
  const y = axis("", { tickvals: names, ticktext: wrapped, tickfont: { size: 12 }, autorange: "reversed" });
  return draw(id, [trace], axis(label, { rangemode: "tozero" }), y, { height: 110 + 20 * names.length + 18 * lines, margin: { l: 60, r: 60, t: 16, b: 50 } });
}

function drawValidation(section, choices) {
  const rows = section.rows.filter((row) => row.quantity === choices.quantity && row.split === choices.split);
  const kernels = [...new Set(rows.map((row) => row.kernel))];
  const values = rows.flatMap((row) => [row.measured, row[choices.fidelity]]).filter((value) => value > 0);
  const ends = [Math.min(...values), Math.max(...values)];
  const line = { type: "scatter", mode: "lines", x: ends, y: ends, name: "equal", line: { color: colour("grey"), dash: "dot" }, hoverinfo: "skip" };
  const traces = kernels.map((kernel, number) => {
    const own = rows.filter((row) => row.kernel === kernel);
    return {
      type: "scatter", mode: "markers", name: kernel, x: own.map((row) => row.measured), y: own.map((row) => row[choices.fidelity]),
      text: own.map((row) => `${row.kernel}<br>${row.shape}, sparsity ${formatNumber(row.sparsity)}`), marker: { color: palette()[number % 7], symbol: SYMBOLS[number % 10] },
      hovertemplate: "%{text}<br>measured %{x:.4g}, predicted %{y:.4g}<extra></extra>",
    };
  });
  const unit = choices.quantity === "time" ? " [s]" : "";
  return draw("validation", [line, ...traces], logAxis(`measured ${choices.quantity}${unit}`, values), logAxis(`predicted ${choices.quantity}${unit}`, values));
}

// The fronts of all datasets in one chart; numbers are converted to the units of the first.
function drawOverview(sections, xName, yName) {
  const [x0, y0] = [xName, yName].map((name) => columnOf(sections[0], name));
  const traces = sections.map((section, number) => {
    const [x, y] = [xName, yName].map((name) => columnOf(section, name));
    return {
      type: "scatter", mode: "markers", name: section.name, x: section.front.map((point) => (x.values[point] * x.scale) / x0.scale),
      y: section.front.map((point) => (y.values[point] * y.scale) / y0.scale), marker: { color: palette()[number % 7], symbol: SYMBOLS[number % 10], size: 8 },
      text: section.front.map((point) => section.labels[point]), hovertemplate: "%{text}<br>%{x:.4g}, %{y:.4g}<extra></extra>",
    };
  });
  return draw("overview", traces, ...[[x0, "x"], [y0, "y"]].map(([column, side]) => (column.log ? logAxis(column.title, traces.flatMap((trace) => trace[side])) : axis(column.title))));
}
