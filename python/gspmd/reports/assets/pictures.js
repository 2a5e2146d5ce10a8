// Pictures of shards: each cell is as large as its share of the value, in the color of its device.

const PALETTE = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#86bc86"];
const GAP = 16; // pixels of what is left out
const EMPTY = 13; // and of shards without elements

function deviceColor(device) {
  if (report.mesh.devices <= PALETTE.length) return PALETTE[device % PALETTE.length];
  const hue = (330 * device) / report.mesh.devices;
  return `hsl(${hue.toFixed(0)} 55% ${device % 2 ? 52 : 62}%)`;
}

/** The starts and sizes of the rows or columns in pixels, and the start of the gap. */
function spread(parts, room) {
  const extents = parts.ranges.map(([start, stop]) => stop - start);
  const empties = parts.dim === null ? 0 : extents.filter((extent) => !extent).length;
  const free = room - (parts.left_out ? GAP : 0) - empties * EMPTY;
  const total = parts.dim === null ? 1 : extents.reduce((sum, extent) => sum + extent, 0) || 1;
  let at = 0;
  let gap = null;
  const places = extents.map((extent, index) => {
    if (parts.left_out && index === extents.length - 1) { gap = at; at += GAP; }
    const size = parts.dim === null ? free : extent ? (free * extent) / total : EMPTY;
    const place = { at, size, isEmpty: parts.dim !== null && !extent };
    at += size;
    return place;
  });
  return { places, gap, end: at };
}

function cellTitle(picture, devices, row, column) {
  const index = picture.shape.map((size) => `0:${size}`);
  for (const [parts, place] of [[picture.rows, row], [picture.columns, column]]) {
    if (parts.dim !== null) index[parts.dim] = parts.ranges[place].join(":");
  }
  const isOne = /^\d+$/.test(devices);
  return `device${isOne ? "" : "s"} ${devices || "none"}: [${index.join(", ")}]`;
}

function drawCell(picture, cell, row, column, { x, y, width, height, isEmpty }) {
  const [label, devices] = cell;
  const shapes = [];
  if (isEmpty) shapes.push(s("rect", { x, y, width, height, class: "padding" }));
  else {
    const stripes = devices.slice(0, 16);
    const part = width / stripes.length;
    stripes.forEach((device, index) => shapes.push(s("rect", { x: x + index * part, y, width: part + 0.3, height, fill: deviceColor(device), "data-device": device })));
  }
  if (!isEmpty) shapes.push(s("rect", { x, y, width, height, class: "edge" }));
  const letters = 6.3 * label.length + 6;
  if (!isEmpty && letters <= width - 2 && height >= 15) {
    const pill = devices.length > 1;
    if (pill) shapes.push(s("rect", { x: x + width / 2 - letters / 2, y: y + height / 2 - 8, width: letters, height: 16, rx: 4, class: "pill" }));
    shapes.push(s("text", { x: x + width / 2, y: y + height / 2 + 4, class: pill ? "devices on-pill" : "devices" }, label));
  }
  return s("g", { class: "shard" }, s("title", {}, cellTitle(picture, label, row, column)), shapes);
}

function drawLayer(picture, layer, width, height) {
  const left = picture.rows.dim === null ? 2 : 15;
  const top = picture.columns.dim === null ? 2 : 15;
  const columns = spread(picture.columns, width - left - 2);
  const rows = spread(picture.rows, height - top - 2);
  const shapes = [];
  layer.cells.forEach((cells, row) => cells.forEach((cell, column) => {
    const across = columns.places[column];
    const down = rows.places[row];
    const box = { x: left + across.at, y: top + down.at, width: across.size, height: down.size, isEmpty: across.isEmpty || down.isEmpty };
    shapes.push(drawCell(picture, cell, row, column, box));
  }));
  if (columns.gap !== null) shapes.push(s("text", { x: left + columns.gap + GAP / 2, y: top + rows.end / 2 + 4, class: "gap" }, "⋯"));
  if (rows.gap !== null) shapes.push(s("text", { x: left + columns.end / 2, y: top + rows.gap + GAP / 2 + 4, class: "gap" }, "⋮"));
  if (picture.columns.dim !== null) shapes.push(s("text", { x: left + columns.end / 2, y: 10, class: "axis" }, axisWords(picture, picture.columns)));
  if (picture.rows.dim !== null) {
    const middle = top + rows.end / 2;
    shapes.push(s("text", { x: 9, y: middle, class: "axis", transform: `rotate(-90 9 ${middle})` }, axisWords(picture, picture.rows)));
  }
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": layer.title || "shards by device" }, shapes);
}

/** The title above a layer; for the mesh, its coordinates along the other axes. */
function layerWords(number, title) {
  if (number !== report.mesh.picture) return title;
  return title.replace(/dimension (\d+): (\d+):\d+/g, (_, dim, at) => `${report.mesh.axes[dim][0]} ${at}`);
}

/** The label at a side: the axis of the mesh, or the dimension of a value and its number of shards. */
function axisWords(picture, parts) {
  const count = parts.ranges.length + parts.left_out;
  if (picture === report.pictures[report.mesh.picture]) return `${report.mesh.axes[parts.dim][0]} = ${count}`;
  return `dim ${parts.dim}: ${picture.shape[parts.dim]} in ${count}`;
}

/** The picture with a number, at most so many pixels large; nothing if it cannot be drawn. */
function drawPicture(number, width = 200, height = 120) {
  if (number < 0) return "";
  const picture = report.pictures[number];
  const isFlat = picture.rows.dim === null;
  const tall = isFlat ? Math.min(height, picture.columns.dim === null ? 44 : 58) : height;
  const layers = picture.layers.map((layer) => h("div", {}, layer.title ? h("span", { class: "layer" }, layerWords(number, layer.title)) : "", drawLayer(picture, layer, width, tall)));
  const more = picture.layers_left_out ? h("span", { class: "layer" }, `and ${picture.layers_left_out} more layers`) : "";
  return h("div", { class: "picture" }, layers, more);
}

/** Two pictures with an arrow between them: a value before and after a reshard. */
function drawMove(tensor, width = 170) {
  const side = (picture, sharding, words) => h("figure", {}, h("figcaption", {}, h("b", {}, words), " ", h("code", {}, sharding)), drawPicture(picture, width, 110));
  return h("div", { class: "move" }, side(tensor.before, tensor.has, "before"), h("span", { class: "arrow", "aria-label": "becomes" }, "→"), side(tensor.after, tensor.runs_as, "after"));
}
