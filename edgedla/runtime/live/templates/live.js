// Keeps the page fresh: numbers every two seconds as text, pictures one after the other. Names are text, never markup.
"use strict";
const MARKS = { ok: "✓", warn: "↻", bad: "✕", plain: "■" };
const EVERY_MS = 2000;
const $ = (id) => document.getElementById(id);

function make(tag, cls, text) {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  if (text !== undefined) e.textContent = text;
  return e;
}

// H.264 in pieces, where the pipeline makes it and the browser plays it; it lies over the picture, which stays for what follows.
function film(img, key) {
  const video = make("video");
  video.muted = video.autoplay = video.playsInline = true;
  video.addEventListener("error", () => { video.remove(); watch(img, key, true); });
  video.src = "camera/" + encodeURIComponent(key) + "/live.m3u8";
  img.before(video);
}

function watch(img, key, pictures) {
  const plays = "film" in document.body.dataset && make("video").canPlayType("application/vnd.apple.mpegurl");
  if (plays && !pictures) { film(img, key); return; }
  let n = 0;
  const next = () => {
    if (!img.isConnected) return;
    if (document.hidden) { setTimeout(next, 500); return; }
    // Loaded aside, so that a picture that does not come leaves the last one.
    const coming = new Image();
    coming.alt = img.alt;
    coming.addEventListener("load", () => { img.replaceWith(coming); img = coming; next(); });
    coming.addEventListener("error", () => setTimeout(next, 2000));
    coming.src = "camera/" + encodeURIComponent(key) + ".jpg?n=" + n++;
  };
  next();
}

// A zone or a line, clicked into the picture, as YAML for the pipeline file.
function yaml(key, corners) {
  const list = "[" + corners.map(([x, y]) => "[" + x.toFixed(3) + ", " + y.toFixed(3) + "]").join(", ") + "]";
  const source = key === "-" ? "" : "sources: [" + key + "], ";
  const name = (key === "-" ? "" : key + "-") + (corners.length === 2 ? "line" : "zone");
  const rule = corners.length === 2 ? "each: object, " + source + "line: " + list : source + "zone: " + list;
  return corners.length < 2 ? "" : "events:\n  " + name + ": {" + rule + "}\n";
}

function drawing(t) {
  const box = t.querySelector(".draw"), tools = box.querySelector("span"), start = box.querySelector("[data-do=start]");
  const figure = t.querySelector("figure"), shape = t.querySelector("polygon"), text = t.querySelector("textarea");
  let corners = [];
  const show = () => {
    shape.setAttribute("points", corners.map((c) => c.join(",")).join(" "));
    text.value = yaml(t.dataset.key, corners);
  };
  const open = (on) => { tools.hidden = !on; start.hidden = on; figure.classList.toggle("drawing", on); if (!on) corners = []; show(); };
  figure.addEventListener("click", (e) => {
    if (tools.hidden) return;
    const r = t.querySelector("img").getBoundingClientRect();
    const share = (at, low, size) => Math.round(Math.min(1, Math.max(0, (at - low) / size)) * 1000) / 1000;
    corners.push([share(e.clientX, r.left, r.width), share(e.clientY, r.top, r.height)]);
    show();
  });
  const actions = {
    start: () => open(true), end: () => open(false), undo: () => { corners.pop(); show(); },
    // Browsers give the clipboard to pages of this machine and of https only; elsewhere the text is selected.
    copy: () => { text.select(); if (navigator.clipboard) navigator.clipboard.writeText(text.value); },
  };
  box.addEventListener("click", (e) => { const act = actions[e.target.dataset.do]; if (act) act(); });
  box.hidden = false;
  open(false);
}

function duration(s) {
  if (s < 120) return Math.round(s) + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  return Math.floor(s / 3600) + " h " + String(Math.floor(s / 60) % 60).padStart(2, "0") + " min";
}

function tile(s) {
  let t = [...document.querySelectorAll(".tile")].find((e) => e.dataset.key === s.key);
  if (!t) {
    t = document.querySelector(".tile").cloneNode(true);
    for (const old of t.querySelectorAll("video")) old.remove();
    t.dataset.key = s.key;
    t.querySelector("h2").textContent = s.name;
    $("tiles").append(t);
    watch(t.querySelector("img"), s.key);
    drawing(t);
  }
  // A camera whose frames are dropped is live: its picture stays as it is.
  const dropping = s.word === "dropping frames";
  t.className = "tile card " + s.level + (dropping ? " seen" : "");
  t.setAttribute("aria-label", s.name + ": " + s.word);
  const chip = t.querySelector(".chip");
  chip.className = "chip " + s.level + (s.level === "ok" ? "" : " solid");
  chip.dataset.mark = MARKS[s.level];
  chip.textContent = s.word;
  const put = (name, text) => { t.querySelector("[data-of=" + name + "]").textContent = text; };
  put("rate", s.rate.toFixed(1));
  put("of", (s.of ? "of " + s.of : "captured") + ", " + s.analysed.toFixed(1) + " analysed");
  put("age", s.age_ms === null ? "-" : s.age_ms.toFixed(0));
  put("dropped", s.dropped);
  put("captured", "of " + s.captured);
  const opened = s.reconnects ? "opened again " + s.reconnects + (s.reconnects === 1 ? " time" : " times") : "";
  const caption = t.querySelector("figcaption");
  caption.hidden = s.level === "ok" || dropping;
  caption.replaceChildren(
    s.silent_s === null ? "Waiting for the first frame." : s.word === "ended" ? "The end."
      : "No frame for " + s.silent_s + " s",
    make("small", "", [s.why, opened].filter(Boolean).join("; ")));
}

function row(name, cls, share, text, mark) {
  const r = make("div", "row"), track = make("span", "tr " + cls), bar = make("i");
  track.setAttribute("aria-hidden", "true");
  bar.style.width = Math.min(100, share * 100) + "%";
  track.append(bar);
  if (mark !== undefined) { const u = make("u"); u.style.left = Math.min(99, mark * 100) + "%"; track.append(u); }
  r.append(make("span", "", name), track, make("span", "num", text));
  return r;
}

function show(d) {
  document.title = MARKS[d.health.level] + " " + d.health.word + ": " + d.health.tell;
  const health = $("health");
  health.className = "health " + d.health.level;
  const big = health.querySelector(".big");
  big.dataset.mark = MARKS[d.health.level];
  big.textContent = d.health.word;
  health.querySelector(".tell").textContent = d.health.tell;
  health.querySelector("time").textContent = d.time + ", every 2 s";
  $("up").textContent = duration(d.up_s);
  d.sources.forEach(tile);
  for (const t of document.querySelectorAll(".tile")) if (!d.sources.some((s) => s.key === t.dataset.key)) t.remove();
  const most = Math.max(0.001, ...d.stages.map((s) => s.p99_ms || 0));
  $("stages").replaceChildren(...d.stages.map((s) => row(s.name, s.key === "inference" ? "dla" : "", (s.p50_ms || 0) / most,
    s.p50_ms === null ? "-" : s.p50_ms.toFixed(2) + " ms", (s.p99_ms || 0) / most)));
  $("load").replaceChildren(...d.load.map((l) => row(l.name, l.name === "GPU" ? "gpu" : "dla", l.share, Math.round(l.share * 100) + " %")));
  $("gauges").replaceChildren(...[...d.gauges, ...d.models.map((m) => ({ name: m.name, value: m.rate.toFixed(1) + " /s" }))].map((g) => {
    const e = make("div"); e.append(make("dt", "", g.name), make("dd", "", g.value)); return e;
  }));
  $("warnings").replaceChildren(...(d.warnings.length ? d.warnings.map((w) => {
    const e = make("li", w.level); e.append(make("time", "", w.time), " " + w.text); return e;
  }) : [make("li", "plain", "None.")]));
}

// The pipeline does not answer: nothing on the page is live. Pictures stay, grey, with the time of the last answer.
function gone() {
  const health = $("health"), big = health.querySelector(".big");
  health.className = "health bad";
  big.dataset.mark = MARKS.bad;
  big.textContent = "Not reached";
  const seen = health.querySelector("time").textContent.split(",")[0];
  health.querySelector(".tell").textContent = "The pipeline does not answer. Last seen " + seen + ".";
  document.title = MARKS.bad + " Not reached";
  for (const t of document.querySelectorAll(".tile")) {
    t.className = "tile card bad";
    t.setAttribute("aria-label", t.querySelector("h2").textContent + ": not reached");
    const chip = t.querySelector(".chip"), caption = t.querySelector("figcaption");
    chip.className = "chip bad solid";
    chip.dataset.mark = MARKS.bad;
    chip.textContent = "not reached";
    caption.hidden = false;
    caption.replaceChildren("Last seen " + seen);
  }
}

async function refresh() {
  try {
    const answer = await fetch("state.json", { cache: "no-store" });
    if (answer.ok) show(await answer.json());
  } catch (e) {
    gone();
  }
  setTimeout(refresh, EVERY_MS);
}

// After the page's own load: one picture after the other would keep the browser's wheel turning.
window.addEventListener("load", () => {
  document.querySelectorAll(".tile").forEach((t) => { watch(t.querySelector("img"), t.dataset.key); drawing(t); });
  refresh();
});
