/** The page: its state, its controls, and drawing after each change. */

const data = JSON.parse(byId("data").textContent);
const kinds = Object.keys(data.kinds).filter((kind) =>
  data.views.every((view) => view.kinds[kind]),
);
const state = { kind: kinds[0], layer: 0, head: "mean", end: true, query: 1 };
const layerCount = () =>
  Math.min(...data.views.map((view) => view.kinds[state.kind].layers.length));
// Encoder and decoder may differ in their number of heads.
const headCount = () =>
  Math.max(...data.views.map((view) => view.kinds[state.kind].layers[0].length));
if (headCount() === 1) state.head = 0; // a single head is no mean
state.layer = Math.max(layerCount() - 2, 0); // the penultimate one aligns best

const live = element("div", { id: "live" });
const fixed = element("div", {});

function update(change) {
  const focused = document.activeElement;
  const key = focused && (focused.name ? [focused.name, focused.value] : null);
  const head = focused?.dataset?.head;
  Object.assign(state, change);
  state.layer = Math.min(state.layer, layerCount() - 1);
  if (state.head >= headCount()) state.head = 0; // of "mean", this is false
  draw();
  // Drawing replaces the elements: the focus stays at the same control.
  if (key) live.querySelector(`[name="${key[0]}"][value="${key[1]}"]`)?.focus();
  else if (head !== undefined) live.querySelector(`.thumbnail[data-head="${head}"]`)?.focus();
}

function controls() {
  const names = data.kinds[state.kind];
  const layers = Array.from({ length: layerCount() }, (_, layer) => layer);
  const end = element("input", { type: "checkbox", name: "end", value: "end", checked: state.end });
  end.addEventListener("change", () => update({ end: end.checked }));
  return element(
    "div",
    { className: "controls" },
    choice(
      "Attention",
      "kind",
      kinds.map((value) => ({ value, text: data.kinds[value].title })),
      state.kind,
      (kind) => update({ kind }),
    ),
    choice(
      "Layer",
      "layer",
      layers.map((value) => ({ value: String(value), text: String(value + 1) })),
      String(state.layer),
      (layer) => update({ layer: Number(layer) }),
    ),
    element("label", { className: "check" }, end, `with ${names.special}`),
    scale(false),
  );
}

function draw() {
  const names = data.kinds[state.kind];
  const panels = data.views.map((view, index) =>
    panel(view, data.names[index], state, names, update),
  );
  if (data.differences) panels.push(differencePanel(data, state, names));
  const left = data.captions.leftOut.replace("{names}", names.special);
  live.replaceChildren(
    controls(),
    element("p", { className: "note", id: "caption" }, caption(names, left)),
    element("div", { className: `panels count${panels.length}` }, ...panels),
    headsSection(data, state, update),
    ...[rolloutSection(data, state, names)].filter(Boolean),
  );
}

function caption(names, left) {
  const which = state.head === "mean" ? "mean of the heads" : `head ${state.head + 1}`;
  const where = `${names.title}, layer ${state.layer + 1}, ${which}; colours from 0 to 1.`;
  const warning = state.end
    ? `Much weight may rest on ${names.special}: compare the map without it.`
    : left;
  return `${where} ${warning} A map shows where a head looks, not why a word was chosen.`;
}

if (data.views.length === 1) {
  byId("pair").append(pairText(data.views[0]));
}
for (const view of data.views)
  for (const note of view.notes)
    byId("pair").append(element("p", { className: "note warning" }, note));
fixed.append(nextSection(data), ...[beamSection(data)].filter(Boolean));
byId("main").append(live, fixed);
draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
