/** Attention as a heat map: a row for each target token, a column for each source token. */

import { element } from "./dom.js";

const MAX_TOKENS = 100; // per side: ten thousand cells, which a browser draws without delay
const END = "</s>";
const SPACE = "\u2581"; // SentencePiece's mark of a space before
// Short tokens and East Asian ones stand upright in a column's header.
const UPRIGHT = /^\u2581?.{0,2}$|[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}]/u;
const HINT = "Point at a cell, or move with the arrow keys, to read its weight.";
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const EDGES = { Home: -Infinity, End: Infinity };

/** Return the drawing of a prediction, whose tokens and weights are padded with "" and 0. */
export function attentionTable({ source_pieces, target_pieces, attention }, languages) {
  const [source, target] = [source_pieces, target_pieces].map((side) => side.filter(Boolean));
  const [columns, rows] = [source, target].map((side) => side.slice(0, MAX_TOKENS));
  const row = (token, t) =>
    element("tr", {}, header(token, "row"), ...columns.map((_, s) => cell(attention[t][s])));
  const headers = columns.map((token) => header(token, "col"));
  const head = element("tr", {}, element("td", {}), ...headers);
  const table = element(
    "table",
    { className: "heatmap", role: "grid", ariaLabel: "Attention", "--columns": columns.length },
    element("thead", { lang: languages.source }, head),
    element("tbody", { lang: languages.target }, ...rows.map(row)),
  );
  const readout = element("p", { className: "readout" }, HINT);
  addCursor(table, rows, columns, readout);
  const cut = columns.length < source.length || rows.length < target.length;
  const note =
    `Only the first ${MAX_TOKENS} tokens of each side are drawn; ` +
    `there are ${source.length} and ${target.length}.`;
  return [
    readout,
    element("div", { className: "scroll" }, table),
    cut ? element("p", { className: "note" }, note) : "",
  ];
}

function header(token, scope) {
  const label = element("span", { className: "token" }, token === END ? "end" : words(token));
  label.classList.toggle("space-before", token.startsWith(SPACE));
  label.classList.toggle("end", token === END);
  label.classList.toggle("upright", UPRIGHT.test(token));
  return element("th", { scope, ariaLabel: spoken(token) }, label);
}

const words = (token) => token.replaceAll(SPACE, " ").trim();
const spoken = (token) => (token === END ? "end of sentence" : words(token) || "space");

function cell(weight) {
  const share = `${100 * Math.min(Math.max(weight, 0), 1)}%`;
  const properties = { role: "gridcell", ariaLabel: weight.toFixed(2), tabIndex: -1 };
  return element("td", { ...properties, "--weight": share });
}

/** Show the weight of the cell under the pointer or the focus, and highlight its headers. */
function addCursor(table, rows, columns, readout) {
  const body = table.tBodies[0].rows;
  const cellOf = (target) => (table.contains(target) ? target.closest("[role=gridcell]") : null);
  const place = (cell) => [cell.parentElement.sectionRowIndex, cell.cellIndex - 1];

  function read(target) {
    const cell = cellOf(target);
    for (const header of table.querySelectorAll(".on")) header.classList.remove("on");
    if (!cell) return readout.replaceChildren(HINT);
    const [row, column] = place(cell);
    body[row].cells[0].classList.add("on");
    table.tHead.rows[0].cells[column + 1].classList.add("on");
    const [from, to] = [rows[row], columns[column]].map((t) => element("q", {}, spoken(t)));
    const weight = element("b", {}, cell.ariaLabel);
    readout.replaceChildren(from, " attends to ", to, " with ", weight);
  }

  function move(event) {
    const cell = cellOf(event.target);
    const edge = EDGES[event.key];
    const [down, right] = STEPS[event.key] ?? [event.ctrlKey ? edge : 0, edge];
    if (!cell || right === undefined || event.altKey || event.metaKey) return;
    event.preventDefault();
    const [row, column] = place(cell);
    const clamp = (value, { length }) => Math.min(Math.max(value, 0), length - 1);
    body[clamp(row + down, rows)].cells[clamp(column + right, columns) + 1].focus();
  }

  if (rows.length && columns.length) body[0].cells[1].tabIndex = 0;
  table.addEventListener("pointerover", ({ target }) => read(target));
  table.addEventListener("pointerleave", () => read(document.activeElement));
  table.addEventListener("focusin", ({ target }) => {
    for (const other of table.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    target.tabIndex = 0; // the only stop of the Tab key
    read(target);
  });
  table.addEventListener("focusout", () => read(null));
  table.addEventListener("keydown", move);
  table.addEventListener("click", ({ target }) => cellOf(target)?.focus());
}
