"use strict";
// Lays out the page of the active dataset and redraws what a choice of the reader changes.

const sections = report.sections;
sections.forEach(prepareSection);
let active = 0;
const states = sections.map(initialState);

function initialState(section) {
  if (section.kind === "validation") {
    const first = (name) => section.rows[0][name];
    return { quantity: first("quantity"), split: first("split"), fidelity: section.fidelities.at(-1) };
  }
  const numeric = section.columns.filter(isNumber).map((column) => column.name);
  const objectives = Object.keys(section.objectives).filter((name) => numeric.includes(name));
  const others = ["speedup", "sparsity", "latency", ...numeric].filter((name) => numeric.includes(name) && !objectives.includes(name));
  const [x, y] = [...objectives, ...others];
  const best = section.answers.length ? section.answers[0].point : section.front[0] ?? 0;
  const filters = {};
  if (section.answers.length > 1 && columnOf(section, "workload")) {
    filters.workload = columnOf(section, "workload").labels.length > 1 ? section.answers[0].workload : "";
    filters.batch = new Set(columnOf(section, "batch").values).size > 1 ? String(section.answers[0].batch) : "";
  }
  const varying = section.grid ? section.grid.dims.filter((dim) => dim.labels.length > 1) : [];
  const preferred = [...varying].sort((a, b) => (b.name.includes(".") - a.name.includes(".")) || b.labels.length - a.labels.length);
  return {
    x, y: y ?? x, a: startOfComparison(section, best), b: best, filters, brushed: null, revision: 0, page: 0, sort: { name: objectives[0] ?? x, direction: section.objectives[objectives[0]] < 0 ? -1 : 1 },
    state: -1, network: 0, compared: firstVaryingResult(section),
    heatX: preferred[0]?.name, heatY: preferred[1]?.name, heatValue: firstVaryingResult(section),
  };
}

// The first result of the grid that is not the same everywhere.
function firstVaryingResult(section) {
  const variables = section.grid ? section.grid.variables : [];
  const varying = variables.find(({ values }) => values.some((value) => value !== values[0]));
  return (varying ?? variables[0])?.name ?? "";
}

// The point with which the best one is compared first: of the same network and batch, if possible on another accelerator and on the front.
function startOfComparison(section, best) {
  const stored = storedPairs(section).filter(([, end]) => end === best).map(([start]) => start);
  if (stored.length) return stored.at(-1);
  const isEqual = (name) => (point) => !columnOf(section, name) || columnOf(section, name).values[point] === columnOf(section, name).values[best];
  const [workload, batch, accelerator] = ["workload", "batch", "accelerator"].map(isEqual);
  const merit = (point) => 8 * workload(point) + 4 * batch(point) + 2 * !accelerator(point) + section.frontSet.has(point);
  const others = [...section.front, ...section.points].filter((point) => point !== best);
  return others.length ? others.reduce((first, point) => (merit(point) > merit(first) ? point : first)) : best;
}

// Pairs of points whose differences were computed beforehand.
function storedPairs(section) {
  return Object.keys(section.attributions || {}).map((pair) => pair.split(",").map(Number));
}

const byId = (id) => document.getElementById(id);

function chart(id, title, caption, ...controls) {
  return element("figure", { role: "group", "aria-labelledby": `${id}-title` }, element("h3", { id: `${id}-title` }, title),
    element("div", { class: "controls", id: `${id}-controls` }, ...controls), element("div", { class: "chart", id, role: "img", "aria-label": title }),
    element("figcaption", { id: `${id}-caption` }, caption), element("div", { id: `${id}-numbers` }));
}

const heading = (text) => element("h2", {}, text);
const paragraphs = (texts, attributes = {}) => texts.map((text) => element("p", attributes, text));
const folded = (title, ...children) => element("details", {}, element("summary", {}, title), ...children);

function layout(section) {
  if (section.kind === "validation") return layoutValidation(section);
  const answers = section.answers.map((row) => [row.workload, row.batch, row.variant, row.design, row.speedup, row.latency, row.accuracy, row.limit]);
  return [
    element("section", { id: "answer", "aria-label": "Answer" }, element("p", { class: "soft" }, section.description), element("div", { class: "answer" }, ...paragraphs(section.headline)),
      heading("How sure is that?"), ...paragraphs(section.certainty),
      answers.length > 1 ? folded(`The best of each network and batch (${answers.length})`, simpleTable("", ["network", "batch", "pruning", "design", "speedup", "time", "accuracy", "limited by"], answers)) : null),
    heading("Trade-offs"),
    element("div", { class: "controls", id: "filters" }),
    element("div", { class: "figures" },
      chart("pareto", "Pareto front", "Better is up and to the right. Drag a box over points to filter the table; click a point to show its design."),
      !section.variants ? null : chart("sparsity-roofline", "Sparsity roofline", "Accuracy against speedup of every pruned variant on the design that is shown; the dotted line is the dense network.")),
    heading("Results"), element("div", { id: "table" }),
    heading("Difference between two results"),
    chart("waterfall", "Waterfall from A to B", "Shapley values of what differs between the two, exact: they add up to the difference and do not depend on an order."),
    heading("The design that is shown"), element("p", { id: "shown" }),
    element("div", { class: "figures" },
      chart("roofline", "Classical roofline", "A marker for each layer; its area is the share of the time. FLOPs are counted as in the dense network, so that a sparse run may lie above the dense peak."),
      chart("causes", "Why not faster?", "From the speedup that the pattern allows to the one that is predicted, by cause; the parts are exact, as those of 'dse explain'."),
      chart("layers", "Time by layer", "The longest layers of the dense network; repeated layers are summed."),
      chart("tornado", "Which numbers matter", "Change of the latency when one number of the accelerator is lower or higher, each evaluated with the model."),
      !section.grid ? null : chart("heat-map", "Heat map", "Two dimensions of the grid; all others are those of the design that is shown.")),
    heading("Assumptions and sources"), ...paragraphs(section.assumptions),
    section.details_reason ? element("p", {}, `Not shown, for the descriptions cannot be read as they were: ${section.details_reason}`) : null,
    element("div", { class: "sources" }, ...section.sources.map((table) => folded(table.title, simpleTable("", table.header, table.rows)))),
    folded("Command, versions and hashes", simpleTable("", ["what", "value"], section.provenance)),
    folded("Specification", element("pre", {}, section.spec)),
  ].filter(Boolean);
}

function layoutValidation(section) {
  return [
    element("section", { id: "answer" }, element("div", { class: "answer" }, ...paragraphs(section.headline)), ...paragraphs(section.certainty)),
    chart("validation", "Predicted against measured", "On the dotted line the prediction equals the measurement."),
    simpleTable("Errors", section.errors.header, section.errors.rows),
  ];
}

function filterOptions(section) {
  return ["workload", "batch", "accelerator", "dtype"].map((name) => columnOf(section, name)).filter((column) => column && new Set(column.values).size > 1).map((column) => {
    const labels = isNumber(column) ? [...new Set(column.values)].sort((a, b) => a - b).map(formatNumber) : column.labels;
    return [column, [["", "all"], ...labels.map((label) => [label, label])]];
  });
}

function redrawPoints() {
  const [section, state] = [sections[active], states[active]];
  const points = filteredPoints(section, state.filters);
  byId("filters").replaceChildren(...filterOptions(section).map(([column, options]) => selectOf(column.label, options, state.filters[column.name] ?? "", (value) => {
    Object.assign(state, { brushed: null, page: 0, revision: state.revision + 1 });
    state.filters[column.name] = value;
    redrawPoints();
  })));
  const numeric = section.columns.filter(isNumber).map((column) => [column.name, column.title]);
  byId("pareto-controls").replaceChildren(...["x", "y"].map((side) => selectOf(side, numeric, state[side], (name) => { state[side] = name; redrawPoints(); })));
  const drawing = drawPareto(section, state, points);
  const shown = section.total > section.points.length ? ` ${section.total} results; the page holds the fronts whole and ${section.points.length - section.front.length} others.` : "";
  const [x, y] = [state.x, state.y].map((name) => columnOf(section, name));
  const without = points.filter((point) => x.values[point] === null || y.values[point] === null).length;
  const hidden = without ? ` ${without} results have no value on one of the axes.` : "";
  byId("pareto-caption").textContent = `Better is ${state.x in section.objectives ? "to the right" : ""}${state.y in section.objectives ? " and up" : ""}. Drag a box over points to filter the table; click a point to show its design.${shown}${hidden}`;
  redrawTable(points);
  return drawing;
}

function redrawTable(points = filteredPoints(sections[active], states[active].filters)) {
  const [section, state] = [sections[active], states[active]];
  const within = state.brushed ? points.filter((point) => state.brushed.has(point)) : points;
  byId("table").replaceChildren(...pointTable(section, state, within, {
    sort: (name) => { state.sort = { name, direction: state.sort.name === name ? -state.sort.direction : 1 }; redrawTable(); },
    turn: (page) => { state.page = page; redrawTable(); },
    clear: () => { Object.assign(state, { brushed: null, revision: state.revision + 1 }); redrawPoints(); },
    choose: (side, point) => { state[side] = point; redrawChosen(); document.querySelector(`tr[data-point="${point}"] button[aria-label$="${side.toUpperCase()}"]`)?.focus(); },
  }));
}

function redrawChosen() {
  const section = sections[active];
  redrawPoints();
  redrawComparison();
  if (section.variants) drawSparsityRoofline(section, states[active]);
  if (section.grid) redrawHeatMap();
  redrawDesign();
}

// The name of A or B or, where differences of some points only are stored, a list of these.
function sideOfComparison(section, state, side) {
  const stored = [...new Set(storedPairs(section).flat())].sort((one, other) => one - other);
  if (!stored.length) return element("span", {}, `${side.toUpperCase()}: ${section.labels[state[side]]}`);
  const options = [...new Set([state[side], ...stored])].map((point) => [point, section.labels[point]]);
  return selectOf(side.toUpperCase(), options, state[side], (point) => { state[side] = Number(point); redrawChosen(); });
}

function redrawComparison() {
  const [section, state] = [sections[active], states[active]];
  const variables = section.grid ? section.grid.variables : [];
  byId("waterfall-controls").replaceChildren(
    ...["a", "b"].map((side) => sideOfComparison(section, state, side)),
    element("button", { id: "swap", onclick: () => { [state.a, state.b] = [state.b, state.a]; redrawChosen(); } }, "Swap A and B"),
    ...(variables.length ? [selectOf("of", variables.map((each) => [each.name, each.label]), state.compared, (name) => { state.compared = name; redrawComparison(); })] : []));
  const result = attribute(section, state.compared, state.a, state.b);
  const variable = variables.find((each) => each.name === state.compared);
  const label = section.attribution_label ?? (variable ? variable.label : "");
  drawWaterfall("waterfall", result, result.unit ? `${label} [${result.unit}]` : label);
  byId("waterfall-numbers").replaceChildren(...(result.reason ? [] : [simpleTable(`${label} of A ${withUnit(result.from, result.unit)}, of B ${withUnit(result.to, result.unit)}`,
    ["what differs", `part of the difference${result.unit ? ` [${result.unit}]` : ""}`], [...result.parts, ["sum", result.parts.reduce((sum, [, value]) => sum + value, 0)]])]));
}

function redrawHeatMap() {
  const [section, state] = [sections[active], states[active]];
  const dims = section.grid.dims.filter((dim) => dim.labels.length > 1);
  if (dims.length > 1) {
    const options = dims.map((dim) => [dim.name, dim.title]);
    const choose = (field) => (name) => { state[field] = name; redrawHeatMap(); };
    byId("heat-map-controls").replaceChildren(selectOf("x", options, state.heatX, choose("heatX")), selectOf("y", options, state.heatY, choose("heatY")),
      selectOf("colour", section.grid.variables.map((each) => [each.name, each.label]), state.heatValue, choose("heatValue")));
  }
  drawHeatMap(section, state);
}

function redrawDesign() {
  const [section, state] = [sections[active], states[active]];
  byId("shown").textContent = section.labels[state.b];
  const networks = section.details[state.b];
  if (!networks) {
    const reason = section.details_reason || `Layers are stored for ${Object.keys(section.details).length} results, the best ones and some of the front.`;
    ["roofline", "causes", "layers", "tornado"].forEach((id) => explainEmpty(id, reason));
    ["roofline", "causes", "tornado"].forEach((id) => byId(`${id}-numbers`).replaceChildren());
    const stored = Object.keys(section.details).map((point) => [point, section.labels[point]]);
    byId("roofline-controls").replaceChildren(...(stored.length ? [selectOf("show", [["", "choose a result"], ...stored], "", (point) => { if (point !== "") { state.b = Number(point); redrawChosen(); } })] : []));
    return;
  }
  const detail = networks[Math.min(state.network, networks.length - 1)];
  const chosen = detail.states.at(state.state) ?? detail.states[0];
  const labels = detail.states.map((each, number) => [number, each.label]);
  byId("roofline-controls").replaceChildren(
    ...(networks.length > 1 ? [selectOf("network", networks.map((each, number) => [number, each.network]), state.network, (number) => { state.network = Number(number); redrawDesign(); })] : []),
    selectOf("layers of", labels, detail.states.indexOf(chosen), (number) => { state.state = Number(number); redrawDesign(); }));
  drawRoofline(detail, chosen);
  if (detail.causes) drawWaterfall("causes", detail.causes, "speedup", ["ideal", "predicted"]);
  else explainEmpty("causes", "The network that is shown is dense.");
  byId("causes-numbers").replaceChildren(...(detail.causes ? [element("p", {}, detail.causes.sentence), folded("Numbers", simpleTable("", ["cause", "part of the speedup"],
    [["ideal", detail.causes.from], ...detail.causes.parts, ["predicted", detail.causes.to]]))] : []));
  drawLayers(detail);
  drawTornado(detail);
  const layers = chosen.layers;
  byId("roofline-numbers").replaceChildren(folded(`Layers of ${chosen.label}`, simpleTable("", ["layer", "repeats", "share of the time [%]", "bound by", "runs as", "density"],
    layers.layer.map((name, row) => [name, layers.count[row], (100 * layers.latency[row]) / chosen.latency, layers.bound[row], layers.execution[row], layers.density[row]]))));
  const step = formatNumber(100 * detail.step);
  byId("tornado-numbers").replaceChildren(...(detail.tornado.length ? [folded("Numbers", simpleTable("", ["number", "value", "kind", `${step}% less [%]`, `${step}% more [%]`],
    detail.tornado.map((row) => [row.path, row.value, row.kind, 100 * row.low, 100 * row.high])))] : []));
}

function redrawValidation() {
  const [section, state] = [sections[active], states[active]];
  const options = (name) => [...new Set(section.rows.map((row) => row[name]))].map((value) => [value, value]);
  const choose = (field) => (value) => { state[field] = value; redrawValidation(); };
  byId("validation-controls").replaceChildren(selectOf("quantity", options("quantity"), state.quantity, choose("quantity")), selectOf("split", options("split"), state.split, choose("split")),
    selectOf("fidelity", section.fidelities.map((name) => [name, name]), state.fidelity, choose("fidelity")));
  drawValidation(section, state);
}

function redraw() {
  if (sections[active].kind === "validation") redrawValidation();
  else redrawChosen();
  if (byId("overview")) drawOverview(comparable(), report.overview.x, report.overview.y);
}

const comparable = () => sections.filter((section) => report.overview.sections.includes(section.name));

function show(number) {
  active = number;
  byId("tabs").replaceChildren(...(sections.length > 1 ? sections.map((section, place) => element("button", { "aria-current": String(place === active), onclick: () => show(place) }, section.name)) : []));
  const overview = report.overview ? [heading("All datasets"), simpleTable("", report.overview.header, report.overview.rows),
    ...(report.overview.x ? [chart("overview", "Pareto fronts of the datasets", "The front of each dataset.")] : [])] : [];
  byId("main").replaceChildren(...layout(sections[active]), ...overview);
  redraw();
  const pareto = byId("pareto");
  if (pareto) connectBrush(pareto);
}

function connectBrush(pareto) {
  const state = states[active];
  pareto.on("plotly_selected", (event) => {
    state.brushed = event && event.points.length ? new Set(event.points.map((point) => point.customdata)) : null;
    state.page = 0;
    redrawTable();
  });
  pareto.on("plotly_deselect", () => { state.brushed = null; redrawTable(); });
  pareto.on("plotly_click", (event) => { state.b = event.points[0].customdata; redrawChosen(); });
}

window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
window.addEventListener("beforeprint", () => {
  redraw();
  document.querySelectorAll("#answer details, figure details").forEach((details) => { details.open = true; });
  document.querySelectorAll(".js-plotly-plot").forEach((plot) => Plotly.relayout(plot, { width: 680 }));
});
window.addEventListener("afterprint", () => document.querySelectorAll(".js-plotly-plot").forEach((plot) => Plotly.relayout(plot, { width: null, autosize: true })));
show(0);
