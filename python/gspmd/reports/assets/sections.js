// The sections of the page, each drawn from its part of `report`.

const totalTime = () => report.lines.time_s ? report.lines.time_s.reduce((sum, time) => sum + time, 0) || 1 : 1;
const largest = (column) => (column || []).reduce((most, value) => Math.max(most, value), 0) || 1;

function tile(title, value, ...words) {
  return h("div", { class: "tile" }, h("h3", {}, title), h("p", { class: "value" }, value), h("p", { class: "soft" }, words));
}

function overview() {
  const { time, flops, communication, memory } = report.cost;
  const line = report.timeline;
  const ratio = flops.ratio ? `all devices together: ${flops.ratio.toFixed(2)} times the model's flops` : "";
  const least = communication.least_bytes ? `${(communication.bytes / communication.least_bytes).toFixed(2)} times the lower bound` : "per device and step";
  return [
    h("div", { class: "tiles" },
      tile("Step", text.time(line.total_s), line.source === "compiler" ? "as the compiler schedules it; estimated " : "", `${text.time(time.lower_bound_s)} to ${text.time(time.upper_bound_s)}, bound by ${time.bound_by}`),
      tile("Sent", text.bytes(communication.bytes), least),
      tile("Communication", text.time(line.communication_s), line.communication_s ? `${text.percent(line.hidden_s / line.communication_s)} of it hidden behind compute` : "none"),
      tile("Compute", text.flops(flops.per_device), ratio),
      tile("Memory", text.bytes(memory.peak), memory.capacity ? `peak, ${text.percent(memory.peak / memory.capacity)} of a device` : "peak"),
      tile("Collectives", text.count(communication.runs), `${text.plural(report.conflicts.length, "conflict")} between shardings`)),
    h("div", { class: "two" }, h("div", {}, h("h3", { class: "between" }, "Time without overlap"), timeBars(), hottest()), h("div", {}, h("h3", { class: "between" }, "Communication by kind"), collectiveKinds())),
    report.notes.map((note) => h("p", { class: "notice" }, note)),
  ];
}

/** The time of compute, memory traffic and communication, each without overlap. */
function timeBars() {
  const { compute_s, memory_traffic_s, communication_s } = report.cost.time;
  const most = Math.max(compute_s, memory_traffic_s, communication_s) || 1;
  const rows = [["compute", compute_s, "compute"], ["memory traffic", memory_traffic_s, "traffic"], ["communication", communication_s, "sent"]];
  return h("div", { class: "bars" }, rows.map(([name, seconds, kind]) => h("div", { class: "line" }, h("span", { class: "name" }, name), bar(seconds / most, text.time(seconds), kind))));
}

const HOTTEST = 5;
function hottest() {
  const { time_s } = report.lines;
  const lines = Array.from({ length: Math.min(HOTTEST, sizes.lines) }, (_, line) => line).filter((line) => time_s[line]);
  if (!lines.length) return "";
  return [h("h3", { class: "between" }, "Most expensive lines"), h("div", { class: "bars" }, lines.map((line) => h("div", { class: "line" }, h("span", { class: "name" }, lineLink(line)), bar(time_s[line] / time_s[0], text.time(time_s[line]), "time"))))];
}

function collectiveKinds() {
  const groups = new Map();
  for (let number = 0; number < sizes.collectives; number += 1) {
    const { kind, axes, total_bytes, total_time_s, count, at_most } = report.collectives;
    const key = JSON.stringify([kind[number], axes[number]]);
    const group = groups.get(key) || { kind: kind[number], axes: axes[number], runs: 0, bytes: 0, time: 0, at_most: at_most[number] };
    group.runs += count[number] === null ? 1 : count[number];
    group.bytes += total_bytes[number];
    group.time += total_time_s[number];
    groups.set(key, group);
  }
  const rows = [...groups.values()].sort((a, b) => b.time - a.time);
  if (!rows.length) return h("p", {}, "No communication.");
  const most = rows[0].time || 1;
  const head = ["kind", "axes", "runs", "sent", "time"];
  return h("table", { class: "plain kinds" },
    h("thead", {}, h("tr", {}, head.map((name, index) => h("th", { class: index === 2 || index === 3 ? "right" : "" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, h("td", {}, row.kind), h("td", {}, row.axes), h("td", { class: "right" }, text.count(row.runs)), h("td", { class: "right" }, text.sent(row.bytes, row.at_most)), h("td", {}, bar(row.time / most, text.time(row.time), "sent"))))));
}

function meshSection() {
  const { axes, devices, picture, placement } = report.mesh;
  const words = axes.map(([name, size]) => `${name} = ${size}`).join(", ") || "no axes";
  return [
    h("p", {}, `${words}: ${text.plural(devices, "device")}.`, devices <= 64 ? " Each device has the same color in all pictures; point at one to highlight its shards." : ""),
    placement ? facts(Object.entries(placement)) : "",
    h("div", { class: "mesh" }, drawPicture(picture, Math.min(420, 60 + 52 * (axes.length ? axes[axes.length - 1][1] : 1)), 190)),
  ];
}

function card(row) {
  const title = row.values.length ? link("value", row.values[0], row.name) : row.name;
  const times = row.names.length > 1 ? h("span", { class: "times", title: row.names.join("\n") }, `×${row.names.length}`) : "";
  return h("article", { class: "card" },
    h("h3", {}, title, times),
    h("p", {}, h("code", {}, row.type), " ", h("code", {}, row.sharding)),
    drawPicture(row.picture, 216, 112),
    h("p", { class: "soft" }, `${text.shape(row.local_shape)} on each device${row.picture >= 0 && !report.pictures[row.picture].is_even ? " with padding" : ""}, ${text.bytes(row.local_bytes)}${row.bytes === row.local_bytes ? "" : ` of ${text.bytes(row.bytes)}`}${row.is_donated ? ", donated" : ""}`));
}

const FIRST_CARDS = 12;
function cards(rows) {
  const sorted = [...rows].sort((a, b) => b.local_bytes * b.names.length - a.local_bytes * a.names.length);
  const place = h("div", { class: "cards" }, sorted.slice(0, FIRST_CARDS).map(card));
  if (sorted.length <= FIRST_CARDS) return place;
  const more = h("button", { type: "button", class: "more", onclick: () => { place.append(...sorted.slice(FIRST_CARDS).map(card)); more.remove(); } }, `show all ${sorted.length} groups`);
  return [place, more];
}

function linesSection() {
  const { time_s, sent_bytes, flops, held_bytes } = report.lines;
  const most = { time: largest(time_s), sent: largest(sent_bytes), flops: largest(flops), held: largest(held_bytes) };
  const table = newTable({
    label: "source lines",
    count: sizes.lines,
    open: (row) => go(`line=${row}`),
    words: (row) => `${report.lines.file[row]}:${report.lines.line[row]} ${report.lines.text[row]}`,
    order: 2,
    columns: [
      { title: "line", width: "minmax(150px, 190px)", cell: lineLink, value: (row) => `${report.lines.file[row]}:${String(report.lines.line[row]).padStart(7, "0")}` },
      { title: "source", width: "minmax(90px, 3fr)", minor: true, cell: (row) => h("code", {}, report.lines.text[row]) },
      { title: "time", width: "minmax(82px, 1fr)", right: true, value: (row) => time_s[row], cell: (row) => bar(time_s[row] / most.time, text.time(time_s[row]), "time") },
      { title: "sends", width: "minmax(82px, 1fr)", right: true, value: (row) => sent_bytes[row], cell: (row) => bar(sent_bytes[row] / most.sent, text.bytes(sent_bytes[row]), "sent") },
      { title: "computes", width: "minmax(82px, 1fr)", right: true, minor: true, value: (row) => flops[row], cell: (row) => bar(flops[row] / most.flops, text.flops(flops[row]), "compute") },
      { title: "holds", width: "minmax(82px, 1fr)", right: true, value: (row) => held_bytes[row], cell: (row) => bar(held_bytes[row] / most.held, text.bytes(held_bytes[row]), "held") },
    ],
  });
  return table.filtered("filter lines");
}

function valuesSection() {
  const { name, label, operation, kind, type, sharding, local_shape, line } = report.values;
  const made = (row) => (kind[row] === "operation" ? text.operation(operation[row]) : kind[row]);
  const table = newTable({
    label: "values",
    count: sizes.values,
    open: (row) => go(`value=${row}`),
    words: (row) => `${name[row]} ${label[row]} ${made(row)} ${type[row]} ${sharding[row]} ${text.line(line[row])}`,
    columns: [
      { title: "value", width: "minmax(110px, 2fr)", cell: (row) => link("value", row, label[row] || name[row]), value: (row) => label[row] || name[row] },
      { title: "made by", width: "minmax(90px, 1fr)", minor: true, cell: made, value: made },
      { title: "type", width: "minmax(90px, 1fr)", cell: (row) => h("code", {}, type[row]), value: (row) => type[row] },
      { title: "sharding", width: "minmax(110px, 1.4fr)", cell: (row) => h("code", {}, sharding[row]), value: (row) => sharding[row] },
      { title: "on each device", width: "minmax(80px, 0.8fr)", minor: true, cell: (row) => local_shape[row] || "scalar" },
      { title: "line", width: "minmax(150px, 0.9fr)", minor: true, cell: (row) => lineLink(line[row]), value: (row) => text.line(line[row]) },
    ],
  });
  return table.filtered("filter values: a name, an operation, a type, a sharding");
}

function collectivesSection() {
  if (!sizes.collectives) return h("p", {}, "No communication.");
  const { kind, axes, count, total_bytes, total_time_s, cause, line } = report.collectives;
  const most = { sent: largest(total_bytes), time: largest(total_time_s) };
  const table = newTable({
    label: "collectives",
    count: sizes.collectives,
    open: (row) => go(`collective=${row}`),
    words: (row) => `${kind[row]} ${axes[row]} ${cause[row]} ${text.line(line[row])}`,
    order: 4,
    columns: [
      { title: "kind", width: "minmax(110px, 1fr)", cell: (row) => link("collective", row, kind[row]), value: (row) => kind[row] },
      { title: "axes", width: "minmax(40px, 0.5fr)", cell: (row) => axes[row], value: (row) => axes[row] },
      { title: "runs", width: "56px", right: true, minor: true, cell: (row) => (count[row] === null ? "?" : text.count(count[row])), value: (row) => count[row] || 1 },
      { title: "sent", width: "minmax(84px, 0.8fr)", right: true, cell: (row) => bar(total_bytes[row] / most.sent, text.bytes(total_bytes[row]), "sent"), value: (row) => total_bytes[row] },
      { title: "time", width: "minmax(84px, 0.8fr)", right: true, cell: (row) => bar(total_time_s[row] / most.time, text.time(total_time_s[row]), "time"), value: (row) => total_time_s[row] },
      { title: "line", width: "minmax(150px, 0.9fr)", minor: true, cell: (row) => lineLink(line[row]), value: (row) => text.line(line[row]) },
      { title: "cause", width: "minmax(120px, 3fr)", minor: true, cell: (row) => h("span", { title: cause[row] }, cause[row]) },
    ],
  });
  return table.filtered("filter collectives");
}

function conflictsSection() {
  if (!report.conflicts.length) return h("p", {}, "No conflicts and no communication.");
  const of = (field) => (row) => report.conflicts[row][field];
  const most = { sent: largest(report.conflicts.map((each) => each.bytes)), time: largest(report.conflicts.map((each) => each.time_s)) };
  const table = newTable({
    label: "conflicts",
    count: report.conflicts.length,
    open: (row) => go(`conflict=${row}`),
    words: (row) => `${of("operation")(row)} ${of("value")(row)} ${of("reasons")(row).join(" ")} ${text.line(of("line")(row))}`,
    columns: [
      { title: "operation", width: "minmax(130px, 1fr)", cell: (row) => link("conflict", row, `${text.operation(of("operation")(row))} ${of("value")(row)}`), value: of("operation") },
      { title: "sent", width: "minmax(84px, 0.7fr)", right: true, cell: (row) => bar(of("bytes")(row) / most.sent, text.bytes(of("bytes")(row)), "sent"), value: of("bytes") },
      { title: "time", width: "minmax(84px, 0.7fr)", right: true, cell: (row) => bar(of("time_s")(row) / most.time, text.time(of("time_s")(row)), "time"), value: of("time_s") },
      { title: "line", width: "minmax(150px, 0.8fr)", minor: true, cell: (row) => lineLink(of("line")(row)), value: (row) => text.line(of("line")(row)) },
      { title: "what disagrees", width: "minmax(120px, 3fr)", minor: true, cell: (row) => h("span", { title: of("reasons")(row).join("\n") }, of("reasons")(row).join("; ")) },
    ],
  });
  const moved = report.conflicts.map((_, number) => number).filter((number) => report.conflicts[number].tensors.some((tensor) => tensor.before >= 0)).slice(0, 4);
  const pictures = moved.map((number) => h("article", { class: "card wide" }, h("h3", {}, conflictItem(number)), h("ul", { class: "reasons" }, report.conflicts[number].reasons.slice(0, 2).map((reason) => h("li", {}, reason))),
    report.conflicts[number].tensors.filter((tensor) => tensor.before >= 0).slice(0, 2).map((tensor) => [h("h4", {}, `${tensor.place} `, valueLink(tensor.value), ` ${tensor.type}`), drawMove(tensor)])));
  return [table.filtered("filter conflicts"), moved.length ? [h("h3", { class: "between" }, "Most expensive reshards, before and after"), h("div", { class: "cards" }, pictures)] : "", refinedPart()];
}

function refinedPart() {
  if (!report.refinements.length) return "";
  return [h("h3", { class: "between" }, `${report.refinements.length} values run with another sharding than propagation chose, because it lowers the total cost`),
    longList(report.refinements, (each) => [valueLink(each.name), " ", h("code", {}, each.sharding), " → ", h("code", {}, each.runs_as), " ", lineLink(each.line)])];
}

function timelineSection() {
  const line = report.timeline;
  const order = line.source === "compiler" ? "Scheduled by the compiler." : "Estimated: compute runs in program order, and a collective starts when its operands are ready and the links are free.";
  const used = line.lanes.map(() => ({ time: 0 }));
  for (let event = 0; event < sizes.events; event += 1) {
    const { lane, turns, busy_s, duration_s } = line.events;
    used[lane[event]].time += turns[event] ? busy_s[event] : duration_s[event];
  }
  const place = h("div", { class: "chart" });
  const reset = h("button", { type: "button", class: "more", onclick: () => entry.draw(true) }, "whole step");
  const look = ({ from, to, turns }) => h("button", { type: "button", class: "more", onclick: () => entry.chart.setScale("x", { min: from, max: to }) }, `one of ${text.count(turns)} iterations, at ${text.time(from)}`);
  let entry = null;
  oncePlaced.push(() => { entry = timelineChart(place); });
  return [
    h("p", {}, `${text.time(line.total_s)} in all. ${order} `, line.communication_s ? `${text.time(line.hidden_s)} of ${text.time(line.communication_s)} of communication is hidden behind compute; the device waits for ${text.time(line.exposed_s)} (${text.percent(line.exposed_s / (line.total_s || 1))} of the step).` : ""),
    place,
    h("p", { class: "soft hint" }, "Drag to zoom in; click an event for details. ", reset, firstTurns().slice(0, 6).map(look)),
    h("div", { class: "bars" }, line.lanes.map((lane, index) => h("div", { class: "line" }, h("span", { class: "name" }, h("i", { class: "swatch", style: { background: laneColor(index) } }), lane), bar(used[index].time / (line.total_s || 1), `${text.time(used[index].time)}, ${text.percent(used[index].time / (line.total_s || 1))} of the step`, "lane", laneColor(index))))),
  ];
}

function memorySection() {
  const { arguments: given, results, aliased, temporaries, peak, capacity, host } = report.cost.memory;
  const place = h("div", { class: "chart" });
  oncePlaced.push(() => memoryChart(place));
  const most = largest(report.at_peak.map((held) => held.bytes));
  const of = (field) => (row) => report.at_peak[row][field];
  const table = newTable({
    label: "live at peak memory",
    count: report.at_peak.length,
    height: 330,
    open: (row) => { if (of("line")(row) >= 0) go(`line=${of("line")(row)}`); },
    words: (row) => `${of("value")(row)} ${of("kind")(row)} ${of("type")(row)} ${text.line(of("line")(row))}`,
    columns: [
      { title: "bytes", width: "minmax(90px, 0.8fr)", right: true, cell: (row) => bar(of("bytes")(row) / most, text.bytes(of("bytes")(row)), "held"), value: of("bytes") },
      { title: "value", width: "minmax(110px, 2fr)", cell: of("value"), value: of("value") },
      { title: "what", width: "minmax(80px, 0.6fr)", minor: true, cell: of("kind"), value: of("kind") },
      { title: "type", width: "minmax(100px, 1fr)", cell: (row) => h("code", {}, of("type")(row)), value: of("type") },
      { title: "line", width: "minmax(150px, 1fr)", minor: true, cell: (row) => lineLink(of("line")(row)), value: (row) => text.line(of("line")(row)) },
      { title: "replicated over", width: "minmax(80px, 0.8fr)", minor: true, cell: (row) => of("replicated_over")(row).join(", "), value: (row) => of("replicated_over")(row).join() },
    ],
  });
  return [
    h("p", {}, `peak of ${text.bytes(peak)}${capacity ? `, of ${text.bytes(capacity)} per device` : ""}: arguments ${text.bytes(given)}, results ${text.bytes(results)} (${text.bytes(aliased)} in donated arguments), temporaries up to ${text.bytes(temporaries)}${host ? `; plus ${text.bytes(host)} of host memory` : ""}.`),
    h("p", { class: "legend" }, h("i", { class: "swatch", style: { background: "var(--accent)" } }), "all live values, ", h("i", { class: "swatch", style: { background: "var(--compute)" } }), "arguments and results only, after each operation"),
    place,
    h("h3", { class: "between" }, `Live at the peak (operation ${text.count(report.peak_moment)} of ${text.count(sizes.moments)})`),
    table.filtered("filter live values"),
  ];
}

function annotationsSection() {
  if (!report.origins.length) return h("p", {}, "No annotations.");
  const of = (field) => (row) => report.origins[row][field];
  const most = largest(report.origins.map((origin) => origin.reach));
  return newTable({
    label: "annotations",
    count: report.origins.length,
    height: 330,
    order: 0,
    open: (row) => go(`annotation=${row}`),
    words: (row) => `${of("kind")(row)} ${of("value")(row)} ${of("label")(row)}`,
    columns: [
      { title: "values", width: "minmax(90px, 0.6fr)", right: true, cell: (row) => bar(of("reach")(row) / most, text.count(of("reach")(row)), "time"), value: of("reach") },
      { title: "sharded by", width: "minmax(140px, 2fr)", cell: (row) => link("annotation", row, `${of("kind")(row)} ${of("label")(row) || of("value")(row)}`), value: (row) => of("label")(row) || of("value")(row) },
      { title: "sharding", width: "minmax(110px, 1fr)", cell: (row) => h("code", {}, of("sharding")(row)), value: of("sharding") },
      { title: "line", width: "minmax(150px, 0.8fr)", minor: true, cell: (row) => lineLink(of("line")(row)), value: (row) => text.line(of("line")(row)) },
    ],
  }).filtered("filter annotations");
}

const SECTIONS = [
  ["overview", "Overview", overview],
  ["mesh", "Mesh", meshSection],
  ["arguments", "Arguments", () => cards(report.arguments), report.arguments.reduce((sum, row) => sum + row.names.length, 0)],
  ["results", "Results", () => cards(report.results), report.results.reduce((sum, row) => sum + row.names.length, 0)],
  ["lines", "Source lines", linesSection, sizes.lines],
  ["collectives", "Collectives", collectivesSection, sizes.collectives],
  ["conflicts", "Conflicts and reshards", conflictsSection, report.conflicts.length],
  ["timeline", "Timeline", timelineSection],
  ["memory", "Memory", memorySection],
  ["annotations", "Annotations", annotationsSection, report.origins.length],
  ["values", "Values", valuesSection, sizes.values],
];
