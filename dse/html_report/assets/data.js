"use strict";
// The data of the report: columns of points, the grid of all results, and exact attributions of differences within the grid.

const report = JSON.parse(document.getElementById("data").textContent);

const columnOf = (section, name) => section.columns.find((column) => column.name === name);

const isNumber = (column) => !column.labels;

function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  return String(Number(value.toPrecision(4)));
}

function textAt(column, point) {
  const value = column.values[point];
  return isNumber(column) ? formatNumber(value) : column.labels[value];
}

const withUnit = (value, unit) => `${formatNumber(value)} ${unit}`.trim();

// Points of the section within the filters, each of which names the label that a column must have.
function filteredPoints(section, filters) {
  const tests = Object.entries(filters).filter(([, label]) => label !== "").map(([name, label]) => {
    const column = columnOf(section, name);
    return (point) => textAt(column, point) === label;
  });
  return section.points.filter((point) => tests.every((test) => test(point)));
}

function decodeFloats(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

function prepareSection(section) {
  section.points = section.columns ? section.columns[0].values.map((_, point) => point) : [];
  section.frontSet = new Set(section.front || []);
  for (const variable of section.grid ? section.grid.variables : []) {
    variable.values = decodeFloats(variable.data);
    variable.sizes = variable.dims.map((name) => section.grid.dims.find((dim) => dim.name === name).labels.length);
  }
}

// The value of a variable at a position, which has an index for each dim of the grid.
function gridValue(grid, variable, position) {
  let index = 0;
  variable.dims.forEach((name, number) => {
    index = index * variable.sizes[number] + position[grid.dims.findIndex((dim) => dim.name === name)];
  });
  return variable.values[index];
}

const gridPosition = (section, point) => section.positions.map((column) => column[point]);

// Shapley values of `count` factors; `value` gives the result of a set of factors, which is a bit mask. They add up to value(all) - value(0).
function shapleyValues(count, value) {
  const results = Array.from({ length: 2 ** count }, (_, mask) => value(mask));
  const factorial = [1];
  for (let n = 1; n <= count; n += 1) factorial.push(factorial[n - 1] * n);
  const size = (mask) => { let bits = 0; for (let rest = mask; rest; rest &= rest - 1) bits += 1; return bits; };
  return Array.from({ length: count }, (_, factor) => {
    let sum = 0;
    results.forEach((result, mask) => {
      if (mask & (1 << factor)) return;
      const others = size(mask);
      const weight = (factorial[others] * factorial[count - 1 - others]) / factorial[count];
      sum += weight * (results[mask | (1 << factor)] - result);
    });
    return sum;
  });
}

// The exact parts of the difference between two points, one for each dim in which they differ; or the reason why there are none.
function attribute(section, variableName, from, to) {
  const stored = (section.attributions || {})[`${from},${to}`];
  if (stored) return { ...stored, unit: section.attribution_unit };
  if (!section.grid) return { reason: section.grid_reason };
  const variable = section.grid.variables.find((each) => each.name === variableName);
  const [start, end] = [gridPosition(section, from), gridPosition(section, to)];
  if ([...start, ...end].includes(-1)) {
    return { reason: "The page holds a part of this large grid only, and one of the two designs is outside it. 'dse explain' compares any two designs." };
  }
  const differing = section.grid.dims.map((_, dim) => dim).filter((dim) => start[dim] !== end[dim] && variable.dims.includes(section.grid.dims[dim].name));
  const mixture = (mask) => start.map((index, dim) => (mask & (1 << differing.indexOf(dim)) && differing.includes(dim) ? end[dim] : index));
  const parts = shapleyValues(differing.length, (mask) => gridValue(section.grid, variable, mixture(mask)));
  return {
    unit: variable.unit,
    from: gridValue(section.grid, variable, start),
    to: gridValue(section.grid, variable, end),
    parts: differing.map((dim, number) => {
      const described = section.grid.dims[dim];
      return [`${described.title}: ${described.labels[start[dim]]} to ${described.labels[end[dim]]}`, parts[number]];
    }),
  };
}

