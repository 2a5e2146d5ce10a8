// Tables of any length: only the rows that can be seen are in the page.

const ROW = 30; // pixels
const PRINTED = 25; // rows
const tables = [];

/**
 * A table. `columns` have a `title`, the `cell(row)`, `value(row)` to sort by, a `width` of CSS's grid, and may be
 * `right`-aligned, or `minor`, which leaves them out of narrow windows. `open(row)` is called for the row that is chosen.
 */
class Table {
  constructor({ label, columns, count, open, words, rows, height, order }) {
    Object.assign(this, { columns, count, open, words });
    this.rows = rows || null; // what is shown, null for all in order
    this.sorted = null;
    this.current = 0;
    this.head = h("div", { class: "row head", role: "row" }, columns.map((column, index) => this.title(column, index)));
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.view = h("div", { class: "view", role: "grid", "aria-label": label, tabindex: 0, style: { maxHeight: `${height || 420}px` } }, this.head, this.body);
    this.view.addEventListener("scroll", () => this.draw());
    this.view.addEventListener("keydown", (event) => this.key(event));
    this.note = h("p", { class: "note" });
    this.element = h("div", { class: "table" }, this.view, this.note);
    this.filter = "";
    this.select(order === undefined ? null : { column: order, down: true });
    tables.push(this);
  }

  title(column, index) {
    const press = () => this.select({ column: index, down: this.sorted && this.sorted.column === index ? !this.sorted.down : Boolean(column.right) });
    return h("div", { class: cellClass(column), role: "columnheader", "aria-sort": "none" }, column.value ? h("button", { type: "button", onclick: press }, column.title) : column.title);
  }

  /** Shows the rows that match every word of the filter, sorted. */
  select(sorted) {
    this.sorted = sorted;
    let rows = this.rows || Array.from({ length: this.count }, (_, row) => row);
    const words = this.filter.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) rows = rows.filter((row) => { const said = this.words(row).toLowerCase(); return words.every((word) => said.includes(word)); });
    if (sorted) {
      const of = this.columns[sorted.column].value;
      const keys = new Map(rows.map((row) => [row, of(row)]));
      const sign = sorted.down ? -1 : 1;
      rows = [...rows].sort((a, b) => sign * (keys.get(a) < keys.get(b) ? -1 : keys.get(a) > keys.get(b) ? 1 : 0) || a - b);
    }
    this.shown = rows;
    this.current = 0;
    this.view.scrollTop = 0;
    [...this.head.children].forEach((cell, index) => cell.setAttribute("aria-sort", !sorted || sorted.column !== index ? "none" : sorted.down ? "descending" : "ascending"));
    const all = this.rows ? this.rows.length : this.count;
    this.note.textContent = rows.length === all ? "" : `${text.count(rows.length)} of ${text.count(all)} rows`;
    this.view.setAttribute("aria-rowcount", rows.length + 1);
    this.draw();
  }

  /** Puts the visible rows and a few around them into the page. */
  draw() {
    if (this.isPrinted) return;
    const room = Math.max(this.view.clientHeight, 420);
    const first = Math.max(0, Math.floor(this.view.scrollTop / ROW) - 6);
    const last = Math.min(this.shown.length, first + Math.ceil(room / ROW) + 12);
    this.body.style.height = `${this.shown.length * ROW}px`;
    this.body.replaceChildren(...this.shown.slice(first, last).map((row, offset) => this.line(row, first + offset)));
  }

  line(row, place) {
    const cells = this.columns.map((column) => h("div", { class: cellClass(column), role: "gridcell" }, column.cell(row)));
    const press = (event) => { if (!event.target.closest("a")) { this.current = place; this.open(row); } };
    const kind = place === this.current && document.activeElement === this.view ? "row current" : "row";
    return h("div", { class: kind, role: "row", "aria-rowindex": place + 2, style: { top: `${place * ROW}px` }, onclick: press }, cells);
  }

  key(event) {
    const page = Math.floor(this.view.clientHeight / ROW) - 2;
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && event.target === this.view && this.shown.length) this.open(this.shown[this.current]);
    else if (step !== undefined) {
      this.current = Math.max(0, Math.min(this.shown.length - 1, this.current + step));
      const top = this.current * ROW;
      const bottom = this.view.scrollTop + this.view.clientHeight - 2 * ROW;
      if (top < this.view.scrollTop) this.view.scrollTop = top;
      else if (top > bottom) this.view.scrollTop += top - bottom;
      this.draw();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** For print, shows the first rows without scrolling. */
  print(is) {
    this.isPrinted = is;
    this.view.classList.toggle("printed", is);
    if (!is) { this.select(this.sorted); return; }
    this.body.style.height = "";
    this.body.replaceChildren(...this.shown.slice(0, PRINTED).map((row, place) => this.line(row, place)));
    if (this.shown.length > PRINTED) this.note.textContent = `and ${text.count(this.shown.length - PRINTED)} more rows`;
  }

  /** The table below a field that filters it. */
  filtered(label) {
    const field = h("input", { type: "search", class: "filter", placeholder: label, "aria-label": label, oninput: () => { this.filter = field.value; this.select(this.sorted); } });
    return h("div", {}, field, this.element);
  }
}

const cellClass = (column) => `cell${column.right ? " right" : ""}${column.minor ? " minor" : ""}`;

/** The widths of columns, with and without those that narrow windows have no room for. */
function layOut(table) {
  const widths = (columns) => columns.map((column) => column.width || "1fr").join(" ");
  table.element.style.setProperty("--columns", widths(table.columns));
  table.element.style.setProperty("--narrow", widths(table.columns.filter((column) => !column.minor)));
  return table;
}

const newTable = (options) => layOut(new Table(options));
