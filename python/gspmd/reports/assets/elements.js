// Elements of the page. Text from a program is inserted as text nodes only: no function here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** An element of HTML: `h("a", {href: "#x"}, "text")`. */
const h = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);

/** An element of SVG. */
const s = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

/** A link to something of the report: `link("value", 3)`. */
function link(kind, number, words) {
  return h("a", { href: `#${kind}=${number}` }, words);
}

const lineLink = (line) => (line < 0 ? "" : link("line", line, text.line(line)));

/** A link to the value of a name, or its name alone where it is not in the table. */
function valueLink(name) {
  const row = valueNamed(name);
  return row < 0 ? h("code", {}, name) : h("code", {}, link("value", row, name));
}

/** A bar whose filled width is `part`, with words beside it. */
function bar(part, words, kind, color) {
  const width = `${Math.max(0, Math.min(1, part || 0)) * 100}%`;
  return h("span", { class: "bar" }, h("span", { class: `fill ${kind || ""}`, style: { width, background: color || "" } }), h("span", { class: "words" }, words));
}

/** A list of names and what they are. */
function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return h("dl", { class: "facts" }, shown.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** The tooltip beside the pointer. */
const tip = document.getElementById("tip");
function showTip(x, y, ...children) {
  tip.replaceChildren(...children);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
}
const hideTip = () => { tip.hidden = true; };
