// The charts, drawn with uPlot (https://github.com/leeoniya/uPlot): the timeline of a step, and memory over the program.

const LANE = 34; // pixels of a lane of the timeline
const charts = [];
const oncePlaced = []; // functions that draw charts, called once their elements have a width
const NARROW = 560; // pixels of a chart that has no room for long names

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** The color of a lane: each axis always has the same one. */
const laneNames = report.timeline.lanes.slice(1).sort();
const laneColor = (lane) => (lane === 0 ? css("--compute") : PALETTE[(laneNames.indexOf(report.timeline.lanes[lane]) + 1) % PALETTE.length]);

/** Redraws a chart with `make(width)` whenever the width of its element or the theme changes. */
function keepDrawn(place, make) {
  const entry = { place, chart: null, width: 0 };
  entry.draw = (force, wanted) => {
    const width = wanted || Math.floor(place.clientWidth);
    if (!width || (width === entry.width && !force)) return;
    if (entry.chart) entry.chart.destroy();
    entry.width = width;
    entry.chart = make(width);
  };
  new ResizeObserver(() => entry.draw(false)).observe(place);
  charts.push(entry);
  entry.draw(true);
  return entry;
}

const axisStyle = () => ({ stroke: css("--muted"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1 }, font: "11px system-ui, sans-serif" });

const clipped = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

/** The events of each lane, in the order of their beginnings. */
function eventsByLane() {
  const lanes = report.timeline.lanes.map(() => []);
  for (let event = 0; event < sizes.events; event += 1) lanes[report.timeline.events.lane[event]].push(event);
  const { start_s } = report.timeline.events;
  lanes.forEach((events) => events.sort((a, b) => start_s[a] - start_s[b]));
  return lanes;
}

/** The first iteration of each loop, with its start and end, ordered by end. */
function firstTurns() {
  const { start_s, duration_s, turns } = report.timeline.events;
  const found = new Map();
  for (let event = 0; event < sizes.events; event += 1) {
    if (turns[event]) found.set(start_s[event], { from: start_s[event] - duration_s[event] / turns[event], to: start_s[event], turns: turns[event] + 1 });
  }
  return [...found.values()].sort((a, b) => a.to - b.to);
}

function paintLane(chart, context, lane, events, ratio) {
  const { start_s, duration_s, turns, busy_s } = report.timeline.events;
  const { min, max } = chart.scales.x;
  const height = Math.round((LANE - 12) * ratio);
  const top = Math.round(chart.valToPos(lane, "y", true) - height / 2);
  const { left, width } = chart.bbox;
  context.fillStyle = laneColor(lane);
  let painted = -1;
  for (const event of events) {
    const end = start_s[event] + duration_s[event];
    if (end < min || start_s[event] > max) continue;
    const from = Math.max(chart.valToPos(start_s[event], "x", true), left);
    const to = Math.min(chart.valToPos(end, "x", true), left + width);
    if (to <= painted) continue;
    const begin = Math.max(from, painted);
    const wide = Math.max(to - begin - (to - begin > 4 ? 1 : 0), 0.5);
    if (turns[event]) {
      context.globalAlpha = 0.25 + 0.5 * Math.min(1, busy_s[event] / (duration_s[event] || 1));
      context.fillRect(begin, top, wide, height);
      context.globalAlpha = 1;
    } else context.fillRect(begin, top, wide, height);
    painted = begin + wide;
  }
}

/** The event under a place on the timeline, or next to it by two pixels; -1 for none. */
function eventAt(chart, lanes, x, y) {
  const lane = Math.round(chart.posToVal(y, "y"));
  const { start_s, duration_s } = report.timeline.events;
  const slack = chart.posToVal(2, "x") - chart.posToVal(0, "x");
  const at = chart.posToVal(x, "x");
  const events = lanes[lane] || [];
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start_s[events[middle]] <= at + slack) low = middle + 1; else high = middle;
  }
  const event = low ? events[low - 1] : -1;
  return event >= 0 && start_s[event] + duration_s[event] >= at - slack ? event : -1;
}

function eventWords(event) {
  const { name, start_s, duration_s, collective, line, turns, busy_s, lane } = report.timeline.events;
  const words = [h("b", {}, name[event]), h("div", {}, `${text.time(duration_s[event])} from ${text.time(start_s[event])} on`)];
  if (turns[event]) words.push(h("div", {}, `busy for ${text.time(busy_s[event])} of it`));
  if (collective[event] >= 0) {
    const number = collective[event];
    words.push(h("div", {}, `${text.bytes(report.collectives.bytes[number])} over ${report.collectives.axes[number]}`));
    words.push(h("div", { class: "soft" }, report.collectives.cause[number]));
  } else if (lane[event]) words.push(h("div", {}, report.timeline.lanes[lane[event]]));
  if (line[event] >= 0) words.push(h("div", {}, `${text.line(line[event])} `, h("code", {}, report.lines.text[line[event]])));
  return words;
}

function timelineChart(place) {
  const lanes = eventsByLane();
  const total = report.timeline.total_s || 1e-9;
  const names = report.timeline.lanes;
  const make = (width) => {
    const chart = new uPlot({
      width,
      height: names.length * LANE + 44,
      cursor: { drag: { x: true, y: false }, points: { show: false }, y: false },
      legend: { show: false },
      scales: { x: { time: false, range: (_, min, max) => [min, max] }, y: { range: () => [-0.5, names.length - 0.5], dir: -1 } },
      series: [{}, { paths: () => null, points: { show: false } }],
      axes: [
        { ...axisStyle(), values: (_, ticks) => ticks.map((tick) => text.time(tick)) },
        { ...axisStyle(), grid: { show: false }, ticks: { show: false }, size: width < NARROW ? 64 : 118, splits: () => names.map((_, lane) => lane), values: () => names.map((name) => (clipped(name, width < NARROW ? 8 : 18))) },
      ],
      hooks: { draw: [(drawn) => {
        drawn.ctx.save();
        lanes.forEach((events, lane) => paintLane(drawn, drawn.ctx, lane, events, devicePixelRatio));
        drawn.ctx.restore();
      }] },
    }, [[0, total], [0, 0]], place);
    watchEvents(chart, lanes);
    return chart;
  };
  return keepDrawn(place, make);
}

function watchEvents(chart, lanes) {
  const found = (event) => {
    const box = chart.over.getBoundingClientRect();
    return eventAt(chart, lanes, event.clientX - box.left, event.clientY - box.top);
  };
  let pressed = 0;
  chart.over.addEventListener("mousemove", (event) => {
    const at = found(event);
    chart.over.style.cursor = at < 0 ? "crosshair" : "pointer";
    if (at < 0) hideTip(); else showTip(event.clientX, event.clientY, ...eventWords(at));
  });
  chart.over.addEventListener("mouseleave", hideTip);
  chart.over.addEventListener("mousedown", (event) => { pressed = event.clientX; });
  chart.over.addEventListener("click", (event) => {
    const at = found(event);
    if (at < 0 || Math.abs(event.clientX - pressed) > 3) return;
    const { collective, line } = report.timeline.events;
    if (collective[at] >= 0) go(`collective=${collective[at]}`);
    else if (line[at] >= 0) go(`line=${line[at]}`);
  });
}

function memoryChart(place) {
  const { held, temporaries, name, line } = report.moments;
  const kept = held.map((bytes, moment) => bytes - temporaries[moment]);
  const numbers = held.map((_, moment) => moment);
  const peak = report.peak_moment;
  const make = (width) => {
    const chart = new uPlot({
      width,
      height: 240,
      cursor: { drag: { x: true, y: false }, y: false },
      legend: { show: false },
      scales: { x: { time: false }, y: { range: (_, __, max) => [0, (max || 1) * 1.08] } },
      series: [
        {},
        { stroke: css("--accent"), fill: `${css("--accent")}33`, width: 1.2, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) },
        { stroke: css("--compute"), fill: `${css("--compute")}44`, width: 1.2, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) },
      ],
      axes: [
        { ...axisStyle(), values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? text.count(tick) : "")) },
        { ...axisStyle(), size: 74, incrs: Array.from({ length: 50 }, (_, power) => 2 ** power), values: (_, ticks) => ticks.map((tick) => text.bytes(tick)) },
      ],
      hooks: { draw: [(drawn) => {
        const x = drawn.valToPos(peak, "x", true);
        if (x < drawn.bbox.left || x > drawn.bbox.left + drawn.bbox.width) return;
        drawn.ctx.strokeStyle = css("--hot");
        drawn.ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
        drawn.ctx.beginPath();
        drawn.ctx.moveTo(x, drawn.bbox.top);
        drawn.ctx.lineTo(x, drawn.bbox.top + drawn.bbox.height);
        drawn.ctx.stroke();
        drawn.ctx.setLineDash([]);
      }] },
    }, [numbers, held, kept], place);
    chart.over.addEventListener("mousemove", (event) => {
      const at = chart.cursor.idx;
      if (at === null || at === undefined) { hideTip(); return; }
      const made = name[at] ? `after ${name[at]} ` : at ? "at the end" : "at the beginning";
      showTip(event.clientX, event.clientY, h("b", {}, text.bytes(held[at])), h("div", {}, `${text.bytes(temporaries[at])} of it temporaries`), h("div", {}, made, line[at] >= 0 ? text.line(line[at]) : ""), at === peak ? h("div", { class: "soft" }, "the peak") : "");
    });
    chart.over.addEventListener("mouseleave", hideTip);
    chart.over.addEventListener("click", () => { const at = chart.cursor.idx; if (at > 0 && line[at] >= 0) go(`line=${line[at]}`); });
    return chart;
  };
  return keepDrawn(place, make);
}
