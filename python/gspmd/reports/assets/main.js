// The page itself: head, navigation, search, keys, theme and print.

const THEMES = ["auto", "light", "dark"];
const KEYS = [["/", "search"], ["j, k or arrows", "move in a table"], ["Enter", "open the row"], ["1 to 9", "go to a section"], ["Backspace", "go back"], ["t", "light, dark or system theme"], ["Esc", "close"], ["?", "these keys"]];
const PAPER = 680; // pixels that fit a page
const panel = document.getElementById("panel");
const main = document.getElementById("main");
let returnTo = null;

/** Remembers settings across reports, if the browser allows it. */
const memory = {
  get(name) { try { return localStorage.getItem(name); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(name, value); } catch { /* as in a frame of a notebook */ } },
};

/** Goes to a section (`lines`) or opens something in the panel (`value=3`). */
function go(place) {
  if (location.hash === `#${place}`) open(place);
  else location.hash = place;
}

function open(place) {
  const [kind, number] = place.split("=");
  hideTip();
  if (number === undefined || !DETAILS[kind]) {
    close();
    const section = document.getElementById(place || "overview");
    if (section && place) section.scrollIntoView();
    return;
  }
  const [draw, count] = DETAILS[kind];
  if (!/^\d+$/.test(number) || Number(number) >= count()) { close(); return; }
  if (panel.hidden) returnTo = document.activeElement;
  const bar = h("div", { class: "bar-top" }, h("span", { class: "soft" }, kind), h("button", { type: "button", onclick: () => history.back(), title: "Backspace" }, "← back"), h("button", { type: "button", onclick: leave, title: "Esc", "aria-label": "close" }, "×"));
  panel.replaceChildren(bar, ...[draw(Number(number))].flat(Infinity).filter(Boolean));
  panel.hidden = false;
  panel.scrollTop = 0;
  document.body.classList.add("with-panel");
  panel.focus({ preventScroll: true });
}

function close() {
  if (panel.hidden) return;
  panel.hidden = true;
  document.body.classList.remove("with-panel");
  if (returnTo && returnTo.isConnected) returnTo.focus({ preventScroll: true });
}

function leave() {
  close();
  try { history.pushState(null, "", "#"); } catch { /* in a frame without an address */ }
}

// ---- search

let searched = null;
function searchable() {
  if (searched) return searched;
  const { name, label, operation, type } = report.values;
  const line = Array.from({ length: sizes.lines }, (_, row) => ["line", row, `${text.line(row)} ${report.lines.text[row]}`]);
  const values = Array.from({ length: sizes.values }, (_, row) => ["value", row, `${label[row]} ${name[row]} ${text.operation(operation[row])} ${type[row]}`.trim()]);
  const conflicts = report.conflicts.map((each, row) => ["conflict", row, `${text.operation(each.operation)} ${each.value} ${each.reasons[0] || ""}`]);
  const sent = Array.from({ length: sizes.collectives }, (_, row) => ["collective", row, `${report.collectives.kind[row]} ${report.collectives.axes[row]} ${report.collectives.cause[row]}`]);
  const origins = report.origins.map((each, row) => ["annotation", row, `${each.kind} ${each.label} ${each.value} ${each.sharding}`]);
  searched = [...line, ...origins, ...values, ...conflicts, ...sent].map(([kind, row, said]) => [kind, row, said, said.toLowerCase()]);
  return searched;
}

const MOST_FOUND = 6; // of a kind
function found(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const counts = {};
  const hits = [];
  if (!words.length) return hits;
  for (const [kind, row, said, lower] of searchable()) {
    if ((counts[kind] || 0) >= MOST_FOUND || !words.every((word) => lower.includes(word))) continue;
    counts[kind] = (counts[kind] || 0) + 1;
    hits.push([kind, row, said]);
  }
  return hits;
}

function searchField() {
  const list = h("ul", { class: "hits", id: "hits", role: "listbox", hidden: true });
  let chosen = 0;
  const mark = (index) => {
    const items = [...list.children];
    chosen = items.length ? (index + items.length) % items.length : 0;
    items.forEach((item, at) => item.setAttribute("aria-selected", at === chosen));
    if (items[chosen]) items[chosen].scrollIntoView({ block: "nearest" });
  };
  const hide = () => { list.hidden = true; field.setAttribute("aria-expanded", "false"); };
  const take = (kind, row) => { hide(); field.blur(); go(`${kind}=${row}`); };
  const look = () => {
    const hits = found(field.value);
    list.replaceChildren(...hits.map(([kind, row, said]) => h("li", { role: "option", onmousedown: (event) => { event.preventDefault(); take(kind, row); } }, h("span", { class: "kind" }, kind), said)));
    if (!hits.length && field.value.trim()) list.replaceChildren(h("li", { class: "soft" }, "no match"));
    list.hidden = !field.value.trim();
    field.setAttribute("aria-expanded", String(!list.hidden));
    mark(0);
  };
  const field = h("input", { type: "search", id: "search", placeholder: "search lines, values, collectives …  ( / )", "aria-label": "search", role: "combobox", "aria-controls": "hits", "aria-expanded": "false", autocomplete: "off", spellcheck: "false", oninput: look, onfocus: look, onblur: hide });
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") mark(chosen + 1);
    else if (event.key === "ArrowUp") mark(chosen - 1);
    else if (event.key === "Escape") { field.value = ""; hide(); field.blur(); }
    else if (event.key === "Enter") { const hit = found(field.value)[chosen]; if (hit) take(hit[0], hit[1]); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return h("div", { class: "search" }, field, list);
}

// ---- theme, head and keys

function setTheme(theme) {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
  const button = document.getElementById("theme");
  if (button) button.textContent = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[theme];
  memory.set("gspmd-theme", theme);
  charts.forEach((entry) => entry.draw(true));
}

const theme = () => document.documentElement.getAttribute("data-theme") || "auto";
const nextTheme = () => setTheme(THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);

function help() {
  const dialog = h("dialog", { class: "help" }, h("h2", {}, "Keys"), facts(KEYS.map(([key, does]) => [h("kbd", {}, key), does])), h("form", { method: "dialog" }, h("button", {}, "close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function head() {
  const axes = report.mesh.axes.map(([name, size]) => `${name}=${size}`).join(", ");
  document.getElementById("top").append(
    h("h1", {}, report.program || "program", h("span", { class: "soft" }, `${report.target} · ${axes || "no axes"} · ${text.plural(report.mesh.devices, "device")}`)),
    searchField(),
    h("button", { type: "button", id: "theme", onclick: nextTheme, title: "light, dark or as the system (t)" }),
    h("button", { type: "button", onclick: help, title: "keys (?)" }, "?"));
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, dialog")) return;
  if (event.key === "/") document.getElementById("search").focus();
  else if (event.key === "Escape") leave();
  else if (event.key === "Backspace" && !panel.hidden) history.back();
  else if (event.key === "t") nextTheme();
  else if (event.key === "?") help();
  else if (/^[1-9]$/.test(event.key) && SECTIONS[event.key - 1]) {
    go(SECTIONS[event.key - 1][0]);
    const grid = document.querySelector(`#${SECTIONS[event.key - 1][0]} [role=grid]`);
    if (grid) grid.focus({ preventScroll: true });
  } else return;
  event.preventDefault();
}

/** Highlights the visible section in the list of sections. */
function followScrolling() {
  const entries = [...document.querySelectorAll("#contents a")];
  const seen = new Map();
  const observer = new IntersectionObserver((changes) => {
    changes.forEach((change) => seen.set(change.target.id, change.isIntersecting));
    const first = SECTIONS.find(([id]) => seen.get(id));
    entries.forEach((entry) => entry.classList.toggle("here", Boolean(first) && entry.getAttribute("href") === `#${first[0]}`));
  }, { rootMargin: "-70px 0px -55% 0px" });
  document.querySelectorAll("main > section").forEach((section) => observer.observe(section));
}

/** Highlights the shards of a device in all pictures. */
function followDevices() {
  const style = h("style", {});
  document.head.append(style);
  main.addEventListener("mouseover", (event) => {
    const device = event.target.getAttribute && event.target.getAttribute("data-device");
    const isKnown = device !== null && device !== undefined && event.target.closest(".mesh");
    style.textContent = isKnown ? `.shard rect[data-device]:not([data-device="${Number(device)}"]) { opacity: 0.18; }` : "";
  });
}

function paper(is) {
  tables.forEach((table) => table.print(is));
  charts.forEach((entry) => entry.draw(true, is ? PAPER : 0));
}

function build() {
  head();
  const rest = [...SECTIONS];
  for (const [id, title, , count] of SECTIONS) {
    document.getElementById("contents").append(h("a", { href: `#${id}` }, title, count === undefined ? "" : h("span", { class: "soft" }, text.count(count))));
    main.append(h("section", { id }, h("h2", {}, title)));
  }
  const next = () => {
    const until = performance.now() + 24;
    do {
      const [id, , draw] = rest.shift();
      document.getElementById(id).append(...[draw()].flat(Infinity).filter(Boolean));
      oncePlaced.splice(0).forEach((drawChart) => drawChart());
    } while (rest.length && performance.now() < until);
    if (rest.length) setTimeout(next);
    else finish();
  };
  next();
}

function finish() {
  followScrolling();
  followDevices();
  addEventListener("hashchange", () => open(decodeURIComponent(location.hash.slice(1))));
  if (location.hash) open(decodeURIComponent(location.hash.slice(1)));
  document.documentElement.setAttribute("data-ready", String(Math.round(performance.now())));
}

// In a frame without an address of its own, links would navigate the enclosing page.
document.addEventListener("click", (event) => {
  const anchor = event.target.closest && event.target.closest('a[href^="#"]');
  if (!anchor || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(anchor.getAttribute("href").slice(1));
});
document.addEventListener("keydown", key);
addEventListener("beforeprint", () => paper(true));
addEventListener("afterprint", () => paper(false));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((entry) => entry.draw(true)));
setTheme(memory.get("gspmd-theme") && THEMES.includes(memory.get("gspmd-theme")) ? memory.get("gspmd-theme") : "auto");
build();
setTheme(theme());
