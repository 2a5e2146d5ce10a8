// The data of the report and the formats of its numbers. Everything else is drawn from `report`.

const report = JSON.parse(document.getElementById("data").textContent);

/** Expands the columns that are stored as a list of distinct texts. */
function unpacked(table) {
  for (const name of Object.keys(table)) {
    const column = table[name];
    if (!Array.isArray(column)) table[name] = column.at.map((index) => column.words[index]);
  }
  return table;
}

for (const name of ["lines", "values", "steps", "collectives", "moments"]) unpacked(report[name]);

const sizes = {
  lines: (report.lines.file || []).length,
  values: (report.values.name || []).length,
  collectives: (report.collectives.kind || []).length,
  moments: (report.moments.held || []).length,
  events: (report.timeline.events.lane || []).length,
};

/** The rows of a table by the value of a column, computed on first use. */
const indices = new Map();
function rowsWith(column, key) {
  if (!indices.has(column)) {
    const found = new Map();
    column.forEach((value, row) => {
      if (!found.has(value)) found.set(value, []);
      found.get(value).push(row);
    });
    indices.set(column, found);
  }
  return indices.get(column).get(key) || [];
}

const conflictLines = report.conflicts.map((conflict) => conflict.line);
const peakLines = report.at_peak.map((held) => held.line);

function scaled(value, units, base) {
  let unit = 0;
  while (Math.abs(value) >= base && unit < units.length - 1) {
    value /= base;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${units[unit]}`.trim();
}

const text = {
  bytes: (count) => scaled(count, ["B", "KiB", "MiB", "GiB", "TiB"], 1024),
  sent: (count, atMost) => (atMost ? "at most " : "") + text.bytes(count),
  flops: (count) => scaled(count, ["flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"], 1000),
  count: (count) => count.toLocaleString("en-US"),
  plural: (count, word) => `${count.toLocaleString("en-US")} ${word}${count === 1 ? "" : "s"}`,
  percent: (part) => `${(100 * part).toFixed(part < 0.1 ? 1 : 0)}%`,
  time(seconds) {
    for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
      if (seconds >= size) return `${(seconds / size).toFixed(seconds / size >= 100 ? 0 : 1)} ${unit}`;
    }
    return seconds ? `${(seconds * 1e9).toFixed(1)} ns` : "0";
  },
  /** `model.py:80`, without folders. */
  line(number) {
    if (number < 0) return "";
    const file = report.lines.file[number].split(/[\\/]/).pop();
    return report.lines.line[number] ? `${file}:${report.lines.line[number]}` : file;
  },
  operation: (name) => name.replace(/^stablehlo\./, ""),
  shape: (sizes) => sizes.join("x") || "scalar",
};

/** The row of the value with a name, the first if there are copies; -1 if there is none. */
let byName = null;
function valueNamed(name) {
  if (!byName) {
    byName = new Map();
    for (let row = sizes.values - 1; row >= 0; row -= 1) byName.set(report.values.name[row], row);
  }
  return byName.has(name) ? byName.get(name) : -1;
}
