// What is told of one line, value, collective, conflict or annotation, with ways to all that belongs to it.

const MANY = 12; // of a list, before the rest is asked for

/** A list whose end is shown when it is asked for. */
function longList(items, draw) {
  if (!items.length) return "";
  const list = h("ul", { class: "items" }, items.slice(0, MANY).map((item) => h("li", {}, draw(item))));
  if (items.length <= MANY) return list;
  const more = h("button", { type: "button", class: "more", onclick: () => {
    list.append(...items.slice(MANY, MANY + 500).map((item) => h("li", {}, draw(item))));
    more.remove();
  } }, `${text.count(items.length - MANY)} more`);
  return [list, more];
}

const part = (title, ...children) => (children.flat(Infinity).some(Boolean) ? h("section", { class: "part" }, h("h3", {}, title), children) : "");

function collectiveItem(number) {
  const { kind, axes, total_bytes, total_time_s } = report.collectives;
  return [link("collective", number, kind[number]), ` over ${axes[number]} `, h("span", { class: "soft" }, `${text.bytes(total_bytes[number])}, ${text.time(total_time_s[number])}`)];
}

function conflictItem(number) {
  const conflict = report.conflicts[number];
  return [link("conflict", number, `${text.operation(conflict.operation)} ${conflict.value}`), " ", h("span", { class: "soft" }, conflict.bytes ? `${text.bytes(conflict.bytes)}, ${text.time(conflict.time_s)}` : "no communication")];
}

function valueItem(row) {
  const { name, type, sharding, operation, label } = report.values;
  return [link("value", row, label[row] || name[row]), " ", h("span", { class: "soft" }, `${text.operation(operation[row])} ${type[row]} `), h("code", {}, sharding[row])];
}

/** A value with the step of propagation that gave it its first axis. */
function decidedItem(row) {
  const [way] = report.values.derivations[row];
  if (!way) return valueItem(row);
  const { operation, operation_value, level } = report.steps;
  const step = way[2];
  const by = step < 0 ? "annotated directly" : `set by ${text.operation(operation[step])} ${operation_value[step]}, level ${level[step]}`;
  return [valueItem(row), h("div", { class: "soft" }, by)];
}

function originLink(number) {
  const origin = report.origins[number];
  return [link("annotation", number, `${origin.kind} ${origin.label || origin.value}`), " ", h("code", {}, origin.sharding)];
}

/** The annotations that the values of some rows lead back to, those of most of them first. */
function originsOf(rows) {
  const counts = new Map();
  for (const row of rows) for (const origin of new Set(report.values.derivations[row].map((way) => way[3]))) counts.set(origin, (counts.get(origin) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function lineDetails(line) {
  const { file, time_s, sent_bytes, communication_s, flops, compute_s, traffic_bytes, traffic_s, held_bytes } = report.lines;
  const values = rowsWith(report.values.line || [], line);
  const costs = [
    ["sends", sent_bytes[line] && `${text.bytes(sent_bytes[line])} in ${text.time(communication_s[line])}`],
    ["computes", flops[line] && `${text.flops(flops[line])} in ${text.time(compute_s[line])}`],
    ["memory traffic", traffic_bytes[line] && `${text.bytes(traffic_bytes[line])} in ${text.time(traffic_s[line])}`],
    ["live at the peak", held_bytes[line] && text.bytes(held_bytes[line])],
    ["share of the step", time_s[line] && text.percent(time_s[line] / totalTime())],
  ].map(([name, said]) => [name, said || "nothing"]);
  return [
    h("h2", {}, text.line(line)),
    h("p", { class: "path" }, `${file[line]}:${report.lines.line[line]}`),
    report.lines.text[line] ? h("pre", { class: "source" }, report.lines.text[line]) : "",
    facts(costs),
    part("Called from", longList([...new Set(values.map((row) => report.values.called_from[row]).filter(Boolean))], (caller) => caller)),
    part("Annotations behind its shardings", longList(originsOf(values), ([origin, count]) => [originLink(origin), h("span", { class: "soft" }, ` ${text.plural(count, "value")}`)])),
    part("Conflicts", longList(rowsWith(conflictLines, line), conflictItem)),
    part("Collectives", longList(rowsWith(report.collectives.line || [], line), collectiveItem)),
    part("Live at the peak", longList(rowsWith(peakLines, line), (held) => `${report.at_peak[held].value} ${report.at_peak[held].type}, ${text.bytes(report.at_peak[held].bytes)}`)),
    part(`Values (${text.count(values.length)})`, longList(values, decidedItem)),
  ];
}

/** The steps from a value back to an annotation. */
function wayBack([dimension, axes, first, origin]) {
  const steps = [];
  for (let step = first; step >= 0; step = report.steps.next[step]) steps.push(step);
  const left = steps.length ? report.steps.left_out[steps[steps.length - 1]] : 0;
  const told = longList(steps, stepItem);
  const said = report.origins[origin];
  return h("section", { class: "way" },
    h("h4", {}, `dimension ${dimension} over ${axes.replace(/"/g, "")}`),
    steps.length ? told : "",
    left ? h("p", { class: "soft" }, `and ${left} more steps`) : "",
    h("p", { class: "origin" }, steps.length ? "annotated: " : "annotated directly: ", originLink(origin), " ", lineLink(said.line)));
}

function stepItem(step) {
  const row = report.steps;
  const way = `${text.operation(row.operation[step])} ${row.operation_value[step]}`;
  const level = `level ${row.level[step]}${row.priority[step] ? `, priority ${row.priority[step]}` : ""}`;
  return [`dimension ${row.from_dimension[step]} of `, valueLink(row.from_value[step]),
    h("div", { class: "soft", title: report.levels[row.level[step]] }, `by ${way}: ${row.source[step]} to ${row.target[step]}, ${level} `, lineLink(row.line[step]))];
}

function valueDetails(row) {
  const { name, kind, label, operation, type, sharding, local_shape, line, picture, derivations, used_by, called_from } = report.values;
  const conflicts = report.conflicts.map((_, number) => number).filter((number) => report.conflicts[number].value === name[row] || report.conflicts[number].tensors.some((tensor) => tensor.value === name[row]));
  return [
    h("h2", {}, label[row] || name[row]),
    facts([
      ["name", h("code", {}, name[row])],
      ["kind", kind[row] === "operation" ? text.operation(operation[row]) : kind[row]],
      ["type", h("code", {}, type[row])],
      ["sharding", h("code", {}, sharding[row])],
      ["on each device", local_shape[row] || "scalar"],
      ["copy for", used_by[row]],
      ["line", line[row] >= 0 ? lineLink(line[row]) : ""],
      ["called from", called_from[row]],
    ]),
    line[row] >= 0 && report.lines.text[line[row]] ? h("pre", { class: "source" }, report.lines.text[line[row]]) : "",
    part("Shards", drawPicture(picture[row], 330, 170)),
    part("Why", derivations[row].length ? derivations[row].map(wayBack) : h("p", { class: "soft" }, "No annotation reaches it.")),
    part("Conflicts with it", longList(conflicts, conflictItem)),
  ];
}

function collectiveDetails(number) {
  const { kind, axes, bytes, at_most, count, time_s, total_bytes, total_time_s, cause, line, conflict } = report.collectives;
  const began = rowsWith(report.timeline.events.collective || [], number);
  return [
    h("h2", {}, `${kind[number]} over ${axes[number] || "all devices"}`),
    h("p", {}, cause[number]),
    facts([
      ["sent per device", text.sent(total_bytes[number], at_most[number])],
      ["time", text.time(total_time_s[number])],
      ["runs", count[number] === null ? "in a loop of unknown trip count" : count[number] === 1 ? "once" : `${text.count(count[number])} times, ${text.bytes(bytes[number])} and ${text.time(time_s[number])} each`],
      ["line", line[number] >= 0 ? lineLink(line[number]) : ""],
      ["on the timeline", began.length ? `from ${text.time(report.timeline.events.start_s[began[0]])} on` : ""],
    ]),
    line[number] >= 0 && report.lines.text[line[number]] ? h("pre", { class: "source" }, report.lines.text[line[number]]) : "",
    conflict[number] >= 0 ? part("The conflict it resolves", conflictBody(conflict[number])) : "",
  ];
}

/** The tensors of a conflict, those that are moved with pictures. */
function tensorParts(conflict) {
  return conflict.tensors.map((tensor) => h("section", { class: "tensor" },
    h("h4", {}, `${tensor.place} `, tensor.value ? valueLink(tensor.value) : "", ` ${tensor.type}`),
    tensor.before >= 0 ? drawMove(tensor, 152) : h("p", {}, h("code", {}, tensor.has), tensor.has === tensor.runs_as ? " unchanged" : [" → ", h("code", {}, tensor.runs_as)]),
    tensor.origins.length ? h("p", { class: "soft" }, "from ", tensor.origins.map((origin, index) => [index ? "; " : "", originLink(origin)])) : ""));
}

function alternativesTable(conflict) {
  if (conflict.alternatives < 0) return "";
  const ways = report.alternatives[conflict.alternatives];
  const row = (way) => h("tr", { class: way.chosen ? "chosen" : "" },
    h("td", { class: "right" }, text.bytes(way.bytes)), h("td", { class: "right" }, text.time(way.time_s)),
    h("td", {}, h("code", {}, `${way.operands.join(", ")} → ${way.results.join(", ")}`), way.chosen ? h("b", {}, " chosen") : ""));
  const head = h("tr", {}, h("th", { class: "right" }, "sent"), h("th", { class: "right" }, "time"), h("th", {}, "operands → results"));
  const first = ways.slice(0, MANY);
  if (!first.some((way) => way.chosen)) first.push(...ways.filter((way) => way.chosen));
  const left = ways.length - first.length;
  return [h("table", { class: "plain" }, h("thead", {}, head), h("tbody", {}, first.map(row))), left > 0 ? h("p", { class: "soft" }, `and ${left} more`) : ""];
}

function conflictBody(number) {
  const conflict = report.conflicts[number];
  return [
    h("p", {}, link("conflict", number, `${text.operation(conflict.operation)} ${conflict.value}`), " ", lineLink(conflict.line)),
    h("ul", { class: "reasons" }, conflict.reasons.map((reason) => h("li", {}, reason))),
    tensorParts(conflict),
  ];
}

function conflictDetails(number) {
  const conflict = report.conflicts[number];
  return [
    h("h2", {}, `${text.operation(conflict.operation) || "conflict"} ${conflict.value}`.trim()),
    facts([
      ["sent per device", conflict.bytes ? text.bytes(conflict.bytes) : "nothing"],
      ["time", conflict.bytes ? text.time(conflict.time_s) : ""],
      ["value", conflict.value ? valueLink(conflict.value) : ""],
      ["line", conflict.line >= 0 ? lineLink(conflict.line) : ""],
    ]),
    part("What disagrees", h("ul", { class: "reasons" }, conflict.reasons.map((reason) => h("li", {}, reason)))),
    part("Resolution", tensorParts(conflict)),
    part("Collectives", longList(conflict.collectives, collectiveItem)),
    part("Candidates compared", alternativesTable(conflict)),
  ];
}

function annotationDetails(number) {
  const origin = report.origins[number];
  const rows = [];
  (report.values.derivations || []).forEach((ways, row) => { if (ways.some((way) => way[3] === number)) rows.push(row); });
  return [
    h("h2", {}, `${origin.kind} ${origin.label || origin.value}`),
    facts([["sharding", h("code", {}, origin.sharding)], ["value", valueLink(origin.value)], ["line", origin.line >= 0 ? lineLink(origin.line) : ""], ["reaches", text.plural(origin.reach, "value")]]),
    part("Values it shards", longList(rows, valueItem)),
  ];
}

const DETAILS = { line: [lineDetails, () => sizes.lines], value: [valueDetails, () => sizes.values], collective: [collectiveDetails, () => sizes.collectives], conflict: [conflictDetails, () => report.conflicts.length], annotation: [annotationDetails, () => report.origins.length] };
