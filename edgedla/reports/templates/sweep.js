"use strict";
// Draws only the rows in sight: ten thousand rows are one array and some thirty elements.
const data = JSON.parse(document.getElementById("data").textContent);
const names = data.columns.map((c) => c.name), link = names.length, HEIGHT = 28;
const at = (name) => names.indexOf(name);
const texts = data.rows.map((r) => r.slice(0, link).join("\u0000").toLowerCase());
let order = null, downwards = false, shown = [];

function element(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

function cell(name, value) {
  if (value === null) return "";
  if (name.startsWith("share") || name.includes("_share")) return (value * 100).toFixed(1) + " %";
  return String(value);
}

// A table whose body holds what is in sight between two spacers; up to `whole` rows it holds all of them.
function sheet(box, head, count, draw, whole) {
  const table = element("table"), body = element("tbody");
  table.append(head, body);
  box.replaceChildren(table);
  const width = head.querySelectorAll("th").length;
  function spacer(rows) {
    const tr = element("tr", undefined, "space"), td = element("td");
    td.colSpan = width;
    td.style.height = rows * HEIGHT + "px";
    tr.append(td);
    return tr;
  }
  function show() {
    const all = count() <= whole;
    const first = all ? 0 : Math.max(0, Math.floor(box.scrollTop / HEIGHT) - 5);
    // An empty box has no height yet; style.css lets it grow to 70 % of the window.
    const sight = Math.max(box.clientHeight, 0.7 * innerHeight);
    const last = all ? count() : Math.min(count(), first + Math.ceil(sight / HEIGHT) + 10);
    const rows = [];
    for (let i = first; i < last; i++) rows.push(draw(i));
    body.replaceChildren(spacer(first), ...rows, spacer(Math.max(0, count() - last)));
  }
  box.addEventListener("scroll", () => requestAnimationFrame(show));
  return show;
}

function head() {
  const thead = element("thead"), tr = element("tr");
  data.columns.forEach((c, k) => {
    const th = element("th"), b = element("button", c.name.replaceAll("_", " "));
    b.title = c.about;
    b.addEventListener("click", () => {
      downwards = order === k ? !downwards : false;
      order = k;
      tr.querySelectorAll("th").forEach((t) => t.removeAttribute("aria-sort"));
      th.setAttribute("aria-sort", downwards ? "descending" : "ascending");
      update();
    });
    th.append(b);
    tr.append(th);
  });
  thead.append(tr);
  return thead;
}

function row(i) {
  const r = data.rows[shown[i]], tr = element("tr");
  names.forEach((name, k) => {
    const td = element("td", undefined, typeof r[k] === "number" ? "n" : "");
    if (name === "model" && r[link]) {
      const a = element("a", r[k]);
      a.href = r[link];
      td.append(a);
    } else td.textContent = cell(name, r[k]);
    if (name === "status" && r[k] !== "ok" && r[k] !== "no-dla") td.className = "failed";
    if (typeof r[k] === "string") td.title = r[k];
    tr.append(td);
  });
  return tr;
}

// Models down, platforms with precision across.
let models = [], places = [], cells = new Map();
function heatHead() {
  const thead = element("thead"), tr = element("tr");
  tr.append(element("th", "model"));
  places = [...new Set(data.rows.map((r) => r[at("platform")] + " " + r[at("precision")]))];
  places.forEach((p) => tr.append(element("th", p)));
  thead.append(tr);
  return thead;
}

function heatRow(i) {
  const tr = element("tr"), name = element("td", models[i]);
  name.title = models[i];
  tr.append(name);
  for (const p of places) {
    const r = cells.get(models[i] + "\u0000" + p), td = element("td", undefined, "c");
    if (r) {
      const share = r[at("share_macs_dla")], known = share !== null && share !== undefined && at("share_macs_dla") >= 0;
      const text = known ? Math.round(share * 100) + " %" : r[at("status")];
      if (r[link]) {
        const a = element("a", text);
        a.href = r[link];
        td.append(a);
      } else td.textContent = text;
      if (known) td.style.backgroundColor = `color-mix(in srgb, var(--dla) ${Math.round(share * 55)}%, var(--card))`;
      else td.classList.add("failed");
      td.title = r[at("reason")] || "";
    }
    tr.append(td);
  }
  return tr;
}

const showRows = sheet(document.getElementById("rows"), head(), () => shown.length, row, 0);
const showHeat = sheet(document.getElementById("heat"), heatHead(), () => models.length, heatRow, 300);

function update() {
  const words = document.getElementById("text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const status = document.getElementById("status").value;
  shown = [];
  data.rows.forEach((r, i) => {
    if ((!status || r[at("status")] === status) && words.every((w) => texts[i].includes(w))) shown.push(i);
  });
  if (order !== null) {
    const sign = downwards ? -1 : 1;
    shown.sort((a, b) => {
      const x = data.rows[a][order], y = data.rows[b][order];
      if (x === y) return a - b;
      // What is not known stands last either way.
      if (x === null) return 1;
      if (y === null) return -1;
      return sign * (x < y ? -1 : 1);
    });
  }
  models = [];
  cells = new Map();
  const seen = new Set();
  for (const i of shown) {
    const r = data.rows[i], m = r[at("model")];
    if (!seen.has(m)) { seen.add(m); models.push(m); }
    cells.set(m + "\u0000" + r[at("platform")] + " " + r[at("precision")], r);
  }
  document.getElementById("shown").textContent = shown.length + " of " + data.rows.length + " rows";
  showRows();
  showHeat();
}
document.getElementById("text").addEventListener("input", update);
document.getElementById("status").addEventListener("input", update);
addEventListener("resize", () => { showRows(); showHeat(); });
update();
