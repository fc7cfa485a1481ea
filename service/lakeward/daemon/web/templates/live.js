// Keeps a page live: what the daemon says on its stream of events makes the page fetch itself and change what differs.
// One stream serves all tabs of a browser, in a shared worker, which is this file, too. Without a stream the page asks
// every five seconds whether anything happened. Without this script the page reloads by itself, as its head says.
// See docs/decisions/0194-pages-are-live-by-a-stream.md
"use strict";
const API = "/api/v1alpha/events", SOON = 1000, OFTEN = 5000, SELDOM = 30000;

function listen(say) {
  const source = new EventSource(`${API}/stream`);
  source.onopen = () => say({live: true});
  source.onmessage = message => say({tables: [JSON.parse(message.data).table]});
  source.addEventListener("status", message => say(JSON.parse(message.data)));
  source.onerror = () => {
    say({live: false});
    if (source.readyState === EventSource.CLOSED) setTimeout(() => listen(say), SELDOM);  // it was refused
  };
}

function worker() {
  const ports = [];
  let live = false;
  listen(said => { live = said.live ?? live; ports.forEach(port => port.postMessage(said)); });
  self.onconnect = event => {
    ports.push(event.ports[0]);
    event.ports[0].postMessage({live});
  };
}

function page(script) {
  const own = document.querySelector("main").dataset.table, sign = document.getElementById("live");
  let live = false, last = Date.now(), due = false, tag = "", busy = false;

  function heard(said) {
    if ("live" in said) live = said.live;
    sign.textContent = live ? "Live" : `Refreshes every ${OFTEN / 1000} s`;
    due ||= said.tables !== undefined && (own === undefined || said.tables === null || said.tables.includes(own));
  }

  // An element stays as it is while a reader types in it, or has selected a part of it.
  const inUse = old => (document.activeElement.matches("input, textarea, select") && old.contains(document.activeElement))
    || (!getSelection().isCollapsed && getSelection().containsNode(old, true));

  function change(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    const parts = element => [...element.children].map(each => each.id || each.tagName).join();
    if (old.matches("main, .answers") && parts(old) === parts(fresh)) {
      const children = [...fresh.children];  // a copy: those that move into the page leave the list
      [...old.children].forEach((each, number) => change(each, children[number]));
    } else if (!inUse(old)) {
      const open = [...old.querySelectorAll("details")].map(each => each.open), focus = document.activeElement;
      const at = old.contains(focus) ? focus.getAttribute("href") : null;
      fresh.querySelectorAll("details").forEach((each, number) => { each.open = open[number] ?? each.open; });
      old.replaceWith(fresh);
      if (at !== null) fresh.querySelector(`a[href="${CSS.escape(at)}"]`)?.focus({preventScroll: true});
    }
  }

  async function refresh() {
    const answer = await fetch(location.pathname + location.search, {headers: {"X-Lakeward-Live": "1"}});
    if (!answer.ok) return;  // as it was is better than an error in its place
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = fresh.title;
    for (const place of ["main", "footer"]) {
      const old = document.querySelector(place), now = fresh.querySelector(place);
      if (old !== null && now !== null) change(old, now);
    }
  }

  async function happened() {
    const answer = await fetch(`${API}?limit=1`, {headers: tag ? {"If-None-Match": tag} : {}, cache: "no-store"});
    tag = answer.headers.get("ETag") ?? "";
    return answer.status !== 304;
  }

  setInterval(async () => {
    const waited = Date.now() - last;
    if (busy || document.hidden || waited < (due ? SOON : OFTEN)) return;
    busy = true;
    try {
      if (due || waited >= SELDOM || (!live && await happened())) {
        [due, last] = [false, Date.now()];
        await refresh();
      }
    } catch {
      heard({live: false});  // the daemon is away: asked again
    }
    busy = false;
  }, 500);

  addEventListener("keydown", event => {
    if (event.key !== "/" || document.activeElement.matches("input, textarea, select")) return;
    event.preventDefault();
    document.querySelector("input[type=search]")?.focus();
  });

  if (window.SharedWorker) new SharedWorker(script, "lakeward").port.onmessage = message => heard(message.data);
  else listen(heard);
}

if (self.document === undefined) worker();
else page(document.currentScript.src);
