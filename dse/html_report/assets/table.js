"use strict";
// Elements of the page and tables: of the points (sorted, filtered, in pages of rows) and of small lists of numbers.

const ROWS = 15;

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function simpleTable(title, header, rows) {
  const isNumeric = header.map((_, place) => rows.length > 0 && rows.every((row) => typeof row[place] === "number"));
  const cell = (tag) => (value, place) => element(tag, isNumeric[place] ? { class: "number" } : {}, typeof value === "number" ? formatNumber(value) : String(value ?? ""));
  const head = element("thead", {}, element("tr", {}, ...header.map(cell("th"))));
  const body = element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell("td")))));
  return element("div", { class: "scroll" }, element("table", {}, title ? element("caption", {}, title) : null, head, body));
}

function selectOf(label, options, chosen, onchange) {
  const items = options.map(([value, text]) => {
    const option = element("option", { value }, text);
    option.selected = String(value) === String(chosen);
    return option;
  });
  return element("label", {}, `${label} `, element("select", { onchange: (event) => onchange(event.target.value) }, ...items));
}

function sortedPoints(section, points, sort) {
  const column = columnOf(section, sort.name);
  if (!column) return points;
  const key = isNumber(column) ? (point) => column.values[point] : (point) => column.labels[column.values[point]];
  return [...points].sort((a, b) => {
    const [first, second] = [key(a), key(b)];
    if (first === second) return a - b;
    if (first === null || second === null) return first === null ? 1 : -1; // unknown values come last in either order
    return (first < second ? -1 : 1) * sort.direction;
  });
}

// Columns in which some points differ, and the sentence about all others.
function splitColumns(section, points) {
  const varies = (column) => points.some((point) => column.values[point] !== column.values[points[0]]);
  const common = section.columns.filter((column) => !varies(column) && points.length && textAt(column, points[0]) !== "");
  return [section.columns.filter(varies), common.map((column) => `${column.label} ${textAt(column, points[0])} ${column.unit}`.trim()).join(", ")];
}

// The table of `points`, with the columns in which those within the filters differ.
function pointTable(section, state, points, act) {
  const [columns, common] = splitColumns(section, filteredPoints(section, state.filters));
  const sorted = sortedPoints(section, points, state.sort);
  const pages = Math.max(1, Math.ceil(sorted.length / ROWS));
  const page = Math.min(state.page, pages - 1);
  const header = columns.map((column) => {
    const isSorted = column.name === state.sort.name;
    const direction = isSorted ? (state.sort.direction > 0 ? "ascending" : "descending") : "none";
    const button = element("button", { onclick: () => act.sort(column.name), title: column.description }, column.title + (isSorted ? (state.sort.direction > 0 ? " ▲" : " ▼") : ""));
    return element("th", { "aria-sort": direction, class: isNumber(column) ? "number" : "" }, button);
  });
  const rows = sorted.slice(page * ROWS, (page + 1) * ROWS).map((point) => {
    const choose = (side) => element("button", { "aria-pressed": String(state[side] === point), "aria-label": `Choose ${section.labels[point]} as ${side.toUpperCase()}`, onclick: () => act.choose(side, point) }, side.toUpperCase());
    const cells = columns.map((column) => element("td", isNumber(column) ? { class: "number" } : {}, textAt(column, point)));
    const classes = [section.frontSet.has(point) ? "front" : "", state.b === point ? "shown" : ""].join(" ").trim();
    return element("tr", { "data-point": point, class: classes }, element("td", {}, choose("a"), " ", choose("b")), ...cells);
  });
  const count = points.length === section.points.length ? `${points.length} results` : `${points.length} of ${section.points.length} results`;
  const turn = (step, text) => element("button", { onclick: () => act.turn(page + step), ...(page + step < 0 || page + step >= pages ? { disabled: "" } : {}) }, text);
  return [
    element("p", { class: "soft" }, `${count} in the table; an orange edge marks the Pareto front.${common ? ` The same for all: ${common}.` : ""}`),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Results" },
      element("table", { id: "points" }, element("thead", {}, element("tr", {}, element("th", {}, "compare"), ...header)), element("tbody", {}, ...rows))),
    element("div", { class: "controls" }, turn(-1, "Previous"), element("span", { id: "page" }, `page ${page + 1} of ${pages}`), turn(1, "Next"),
      element("button", { onclick: act.clear, id: "clear" }, "Clear the brush")),
  ];
}
