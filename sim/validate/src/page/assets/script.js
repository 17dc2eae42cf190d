"use strict";
// Tables: sort by a click on a column's name, filter by text. Works on the rows that are there; nothing is fetched.
for (const table of document.querySelectorAll("table.data")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells], rows = [...body.rows];
  const key = (row, i) => row.cells[i].dataset.v ?? row.cells[i].textContent;
  heads.forEach((head, i) => head.querySelector("button")?.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending", numeric = head.className !== "";
    heads.forEach(h => h.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const order = numeric ? (a, b) => key(a, i) - key(b, i) : (a, b) => key(a, i).localeCompare(key(b, i), undefined, { numeric: true });
    rows.sort((a, b) => up ? order(a, b) : order(b, a));
    body.append(...rows);
  }));
  const tools = table.closest("section").querySelector("input[type=search]");
  tools?.addEventListener("input", () => {
    const word = tools.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(word);
      shown += !row.hidden;
    }
    tools.closest(".tools").querySelector("output").value = word ? `${shown} of ${rows.length}` : `${rows.length} rows`;
  });
}
// Timeline: positions are percentages, so zoom is the width of the drawing; only the axis is written anew.
const pan = document.querySelector(".pan");
if (pan) {
  const drawing = pan.querySelector("svg"), axis = drawing.querySelector(".axis"), total = +drawing.dataset.ns;
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  let zoom = 1;
  for (const span of drawing.querySelectorAll(".s:not(:has(text))")) {
    const name = document.createElementNS(span.namespaceURI, "text");
    name.textContent = span.firstElementChild.textContent.split("\n")[0];
    name.setAttribute("x", 5);
    name.setAttribute("y", 14);
    span.append(name);
  }
  const ticks = () => {
    const wanted = total * 110 / (pan.clientWidth * zoom), base = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map(f => f * base).find(s => s >= wanted);
    const [size, unit] = units.find(u => step * 100 >= u[0]) ?? units[3];
    let marks = "";
    for (let i = 0; i * step < total; i++) {
      const x = (100 * i * step / total).toFixed(4) + "%", text = +(i * step / size).toFixed(3);
      marks += `<line class="grid" x1="${x}" x2="${x}" y1="0" y2="100%"/><text x="${x}" dx="4" y="14">${text} ${unit}</text>`;
    }
    axis.innerHTML = marks;
  };
  const set = (next, at = pan.clientWidth / 2) => {
    next = Math.min(512, Math.max(1, next));
    const point = (pan.scrollLeft + at) / zoom;
    zoom = next;
    drawing.style.width = `${100 * zoom}%`;
    pan.scrollLeft = point * zoom - at;
    ticks();
  };
  const actions = { "+": () => set(zoom * 2), "=": () => set(zoom * 2), "-": () => set(zoom / 2), "0": () => set(1) };
  pan.addEventListener("keydown", e => { if (actions[e.key] && !e.ctrlKey && !e.metaKey) { actions[e.key](); e.preventDefault(); } });
  for (const button of document.querySelectorAll("button[data-zoom]")) button.addEventListener("click", actions[button.dataset.zoom]);
  pan.addEventListener("wheel", e => {
    if (!e.ctrlKey) return;
    e.preventDefault();
    set(zoom * (e.deltaY < 0 ? 1.25 : 0.8), e.clientX - pan.getBoundingClientRect().left);
  }, { passive: false });
  addEventListener("resize", ticks);
  ticks();
}
