// The script of the dashboard. Every page works without it; it refreshes them, counts ages, and listens to keys.
"use strict";

const body = document.body;
let every = Number(body.dataset.every);
const patience = 5000; // of a request, in milliseconds
const $ = (id) => document.getElementById(id);

// Ages of times, which the server writes as they are.
function age(seconds) {
  const s = Math.floor(Math.abs(seconds));
  const two = (big, unit, small, less) => `${Math.floor(s / big)}${unit}` + (s % big >= small ? `${Math.floor((s % big) / small)}${less}` : "");
  const text = s < 60 ? `${s}s` : s < 3600 ? two(60, "m", 1, "s") : s < 172800 ? two(3600, "h", 60, "m") : two(86400, "d", 3600, "h");
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}
let skew = 0; // milliseconds by which the clock of the node is ahead
function tell(root) {
  for (const t of root.querySelectorAll("time[datetime]")) {
    const at = new Date(t.dateTime);
    const text = "local" in t.dataset ? at.toLocaleString() : age((Date.now() + skew - at) / 1000);
    if (t.textContent !== text) t.textContent = text;
    if (!t.title) t.title = `${at.toLocaleString()} (${t.dateTime})`;
  }
}

// Bring one element to be like another one, so that focus, selection and what was typed stay.
const kept = { DETAILS: ["open"], INPUT: ["value", "checked"], TEXTAREA: [], DIALOG: ["open"] };
function morph(old, is) {
  if (old.dataset && "keep" in old.dataset) return;
  const stays = (old.type !== "hidden" && kept[old.tagName]) || [];
  for (const { name } of [...old.attributes]) if (!is.hasAttribute(name) && !stays.includes(name) && !(old.tagName === "TIME" && name === "title") && name !== "data-at") old.removeAttribute(name);
  for (const { name, value } of is.attributes) if (!stays.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.tagName === "TIME") {
    if (old.title && !old.title.includes(is.dateTime)) old.removeAttribute("title");
    return;
  }
  const next = [...is.childNodes];
  let at = old.firstChild;
  for (const n of next) {
    if (n.nodeType === 1 && n.id) { // the same thing may have moved
      const found = [...old.children].find((c) => c.id === n.id);
      if (found && found !== at) old.insertBefore(found, at);
      if (found) at = found;
    }
    if (!at) old.appendChild(n);
    else if (at.nodeType !== n.nodeType || at.nodeName !== n.nodeName || (at.id || "") !== (n.id || "")) {
      if (n.nodeType === 1 && n.id) old.insertBefore(n, at);
      else {
        const gone = at;
        at = at.nextSibling;
        old.replaceChild(n, gone);
      }
    } else {
      if (at.nodeType === 1) morph(at, n);
      else if (at.nodeValue !== n.nodeValue) at.nodeValue = n.nodeValue;
      at = at.nextSibling;
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

// Lines of a log: the page has some, and asks for those after them.
const maxLines = 5000;
async function follow(signal) {
  const section = document.querySelector("[data-lines]");
  const log = $("log");
  if (!section || !log || log.dataset.state === "hidden") return;
  const ended = !document.querySelector("#task .state.processing, #task .state.submitted, #task .state.waiting");
  if (ended && log.dataset.state === "ended") return;
  const res = await fetch(`${section.dataset.lines}?after=${encodeURIComponent(log.dataset.after)}`, { headers: { "Taskengine-Live": "0" }, signal, credentials: "same-origin", redirect: "manual", cache: "no-store" });
  if (!res.ok) return stale(`the log is not sent: the node answers ${res.status}`);
  const is = new DOMParser().parseFromString(await res.text(), "text/html").getElementById("log");
  if (!is) return;
  const box = log.querySelector(".log");
  const list = $("log-lines");
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  for (const line of [...is.querySelectorAll("li")]) list.appendChild(line);
  while (list.children.length > maxLines) list.firstElementChild.remove();
  box.hidden = !list.children.length;
  if (atEnd) box.scrollTop = box.scrollHeight;
  for (const id of ["log-state", "log-notes"]) morph($(id), is.querySelector(`#${id}`));
  log.dataset.after = is.dataset.after;
  log.dataset.state = is.dataset.state;
}

// Refresh.
let on = true;
let tag = "";
let since = 0; // when the node last answered
let failures = 0;
let timer = 0;
let busy = false;

function stale(why) {
  failures++;
  const bar = $("stale");
  const text = `Stale since ${new Date(since).toLocaleTimeString()}: ${why}. Trying again.`;
  if (bar.textContent !== text) bar.textContent = text;
  bar.hidden = false;
  body.classList.add("stale");
}

async function refresh() {
  if (busy || !on || document.hidden) return;
  busy = true;
  const stop = new AbortController();
  const late = setTimeout(() => stop.abort(), patience);
  try {
    const headers = { "Taskengine-Live": String(every) };
    if (tag) headers["If-None-Match"] = tag;
    const res = await fetch(location.href, { headers, signal: stop.signal, credentials: "same-origin", redirect: "manual", cache: "no-store" });
    if (res.status === 401 || res.type === "opaqueredirect") return location.reload();
    if (res.status >= 500) return stale(`the node answers ${res.status}`);
    if (res.status !== 304) {
      const html = await res.text();
      const page = new DOMParser().parseFromString(html, "text/html");
      for (const region of document.querySelectorAll("[data-live]")) {
        const is = page.getElementById(region.id);
        if (is) morph(region, is);
      }
      tag = res.headers.get("ETag") || "";
      document.dispatchEvent(new Event("refreshed"));
    }
    every = Number(res.headers.get("Taskengine-Every")) || every; // longer if many pages are open
    since = Date.now();
    const date = Date.parse(res.headers.get("Date") || "");
    if (Math.abs(date - since) > 5000) skew = date - since;
    failures = 0;
    $("stale").hidden = true;
    body.classList.remove("stale");
    tell(document);
    await follow(stop.signal);
    document.dispatchEvent(new Event("fresh"));
  } catch (e) {
    stale(e.name === "AbortError" ? "the node does not answer" : "the node cannot be reached");
  } finally {
    clearTimeout(late);
    busy = false;
    plan();
  }
}
function plan() {
  clearTimeout(timer);
  if (on && every) timer = setTimeout(refresh, failures ? Math.min(every * 2 ** Math.min(failures, 3), 15000) : every);
}
function toggle() {
  on = !on;
  const b = $("live");
  b.setAttribute("aria-pressed", String(on));
  b.textContent = on ? "live" : "stopped";
  if (on) refresh();
}

// Keys.
let going = false;
function rows() { return [...document.querySelectorAll("table[data-rows] tbody tr")].map((r) => r.querySelector("a")).filter(Boolean); }
function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(document.activeElement);
  const to = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
  to.focus();
  to.scrollIntoView({ block: "nearest" });
}
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || $("help").open) return;
  const within = e.target.closest("input, textarea, select");
  if (within) {
    if (e.key === "Escape") within.blur();
    return;
  }
  const link = going && [...document.querySelectorAll("nav a")].find((a) => a.dataset.key === e.key.toLowerCase());
  going = !link && e.key === "g";
  if (link) {
    e.preventDefault();
    link.click();
    return;
  }
  const query = $("query");
  if (e.key === "/") {
    if (query) {
      query.focus();
      query.select();
    } else location.href = `${body.dataset.base}tasks#query`;
  } else if (e.key === "j") step(1);
  else if (e.key === "k") step(-1);
  else if (e.key === "?") $("help").showModal();
  else if (e.key === "p" && every) toggle();
  else return;
  e.preventDefault();
});

// Begin.
since = Date.now();
for (const b of document.querySelectorAll("#live, #keys")) b.hidden = false;
$("keys").addEventListener("click", () => $("help").showModal());
if (every) $("live").addEventListener("click", toggle);
document.addEventListener("visibilitychange", () => { if (!document.hidden && every) refresh(); });
window.addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); }); // the person may have logged out meanwhile
function offerCopies() {
  if (navigator.clipboard) for (const b of document.querySelectorAll("[data-copy]")) b.hidden = false;
}
document.addEventListener("refreshed", offerCopies);
document.addEventListener("click", (e) => {
  const b = e.target.closest("[data-copy]");
  if (!b) return;
  navigator.clipboard.writeText($(b.dataset.copy).textContent).then(() => {
    b.textContent = "Copied";
    setTimeout(() => { b.textContent = "Copy"; }, 1500);
  });
});
offerCopies();
if (location.hash === "#query" && $("query")) $("query").focus();
tell(document);
setInterval(() => { if (!document.hidden) tell(document); }, 1000);
plan();
