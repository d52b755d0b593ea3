// Elements and texts. Whatever comes from a job becomes a text node or an attribute, never markup.

const SVG = "http://www.w3.org/2000/svg";

function make(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, String(value));
  }
  node.append(...children.flat().filter((child) => child != null));
  return node;
}

export const el = (name, attributes, ...children) => make(document.createElement(name), attributes, children);

export const svg = (name, attributes, ...children) => make(document.createElementNS(SVG, name), attributes, children);

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

export const stateBadge = (state) => el("span", { class: `state ${state}` }, state);

// A table whose rows stay the same elements while their data changes: columns are [title, value(row), class].
export function table(columns, { key, onchoose, empty = "Nothing yet." } = {}) {
  const body = el("tbody");
  const heads = columns.map(([title, , kind]) => el("th", { class: kind, scope: "col" }, title));
  const none = el("p", { class: "empty" }, empty);
  const grid = el("table", {}, el("thead", {}, el("tr", {}, heads)), body);
  const node = el("div", {}, grid, none);
  const known = new Map();

  function update(rows, chosen) {
    none.hidden = rows.length > 0;
    grid.hidden = rows.length === 0;
    const wanted = rows.map((row) => String(key(row)));
    for (const [id, entry] of known) {
      if (!wanted.includes(id)) {
        entry.line.remove();
        known.delete(id);
      }
    }
    rows.forEach((row, place) => {
      const id = wanted[place];
      let entry = known.get(id);
      if (!entry) {
        const cells = columns.map(([, , kind]) => el("td", { class: kind }));
        const line = el("tr", { class: onchoose ? "link" : null, tabindex: onchoose ? 0 : null, "data-key": id }, cells);
        entry = { line, cells, row };
        if (onchoose) {
          line.addEventListener("click", () => onchoose(entry.row));
          line.addEventListener("keydown", (event) => event.key === "Enter" && onchoose(entry.row));
        }
        known.set(id, entry);
      }
      entry.row = row;
      columns.forEach(([, value], number) => {
        const found = value(row);
        const cell = entry.cells[number];
        if (found instanceof Node) {
          if (cell.textContent !== found.textContent) cell.replaceChildren(found);
        } else setText(cell, found == null ? "–" : String(found));
      });
      entry.line.classList.toggle("chosen", chosen != null && id === String(chosen));
      if (body.children[place] !== entry.line) body.insertBefore(entry.line, body.children[place] || null);
    });
  }
  update([]);
  return { node, update };
}
