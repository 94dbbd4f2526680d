/** Attention as a table of colours: rows are pieces of the translation, columns of the source. */

import { element, setLanguage } from "./dom.js";
import { languageName } from "./words.js";

const MOST_PIECES = 100; // of each side: ten thousand cells, which a browser draws at once
const SIZES = [[8, "large"], [18, "medium"], [MOST_PIECES, "small"]]; // of cells, by columns
const END = "</s>";
const SPACE = "\u2581"; // SentencePiece's sign for a space before
// A column's header stands on its side, but not where a script has no such custom.
const UPRIGHT = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;

/**
 * @param {HTMLElement} root
 * @param {{source_pieces: string[], target_pieces: string[], attention: number[][]}} answer
 *   padded with "" and 0
 * @param {{source?: string, target?: string}} languages
 */
export function showHeatmap(root, answer, languages) {
  const source = answer.source_pieces.filter(Boolean);
  const target = answer.target_pieces.filter(Boolean);
  const columns = source.slice(0, MOST_PIECES);
  const rows = target.slice(0, MOST_PIECES);
  const readout = element("p", "readout");
  const size = SIZES.find(([most]) => columns.length <= most)[1];
  const table = element("table", `heat ${size}`);
  table.setAttribute("role", "grid");
  table.setAttribute("aria-labelledby", "attention-title");
  table.append(headRow(columns, languages.source));
  const body = table.createTBody();
  rows.forEach((piece, t) => {
    const row = body.insertRow();
    row.append(header(piece, "row", languages.target));
    columns.forEach((_, s) => row.append(cell(answer.attention[t][s])));
  });
  new Cursor(table, columns, rows, readout);
  const frame = element("div", "heat-frame");
  frame.append(table);
  root.replaceChildren(legend(languages), readout, frame);
  if (columns.length < source.length || rows.length < target.length) {
    const left = `Only the first ${MOST_PIECES} pieces of each side are drawn; ` +
      `there are ${source.length} and ${target.length}.`;
    root.append(element("p", "quiet", left));
  }
}

function headRow(pieces, language) {
  const head = element("thead");
  const row = element("tr");
  row.append(element("td"), ...pieces.map((piece) => header(piece, "col", language)));
  head.append(row);
  return head;
}

function header(piece, scope, language) {
  const made = element("th");
  made.scope = scope;
  setLanguage(made, language);
  made.setAttribute("aria-label", spoken(piece));
  const level = UPRIGHT.test(piece) || [...piece.replaceAll(SPACE, "")].length <= 2;
  const label = element("span", level ? "piece level" : "piece");
  label.append(...shown(piece));
  made.append(label);
  return made;
}

function cell(weight) {
  const made = element("td");
  made.setAttribute("role", "gridcell");
  made.setAttribute("aria-label", weight.toFixed(2));
  made.tabIndex = -1;
  // Through the object model: a style attribute in text is what the page's policy forbids.
  made.style.setProperty("--weight", `${(100 * Math.min(Math.max(weight, 0), 1)).toFixed(1)}%`);
  return made;
}

/** A piece as nodes, each space sign as a small mark of its own. */
function shown(piece) {
  if (piece === END) return [element("i", "end", "end")];
  return piece
    .split(/(\u2581)/)
    .filter(Boolean)
    .map((part) => (part === SPACE ? element("span", "space") : document.createTextNode(part)));
}

function spoken(piece) {
  if (piece === END) return "end of sentence";
  return piece.replaceAll(SPACE, " ").trim() || "space";
}

function legend(languages) {
  const made = element("div", "legend");
  const rows = languages.target ? languageName(languages.target) : "translation";
  const columns = languages.source ? languageName(languages.source) : "source";
  const scale = element("span", "scale");
  scale.append(
    element("span", "", "0"), element("span", "scale-bar"), element("span", "", "1"),
  );
  made.append(element("span", "quiet", `Rows: ${rows}. Columns: ${columns}.`), scale);
  return made;
}

/** The cell under the pointer or the keyboard: its headers light up, its weight is written out. */
class Cursor {
  #table;
  #columns;
  #rows;
  #readout;

  constructor(table, columns, rows, readout) {
    this.#table = table;
    this.#columns = columns;
    this.#rows = rows;
    this.#readout = readout;
    this.#rest();
    if (rows.length && columns.length) this.#cell(0, 0).tabIndex = 0;
    table.addEventListener("pointerover", (event) => this.#point(event.target));
    table.addEventListener("pointerleave", () => this.#point(document.activeElement));
    table.addEventListener("focusin", (event) => this.#focus(event.target));
    table.addEventListener("focusout", () => this.#light(null));
    table.addEventListener("keydown", (event) => this.#key(event));
    table.addEventListener("click", (event) => event.target.closest("[role=gridcell]")?.focus());
  }

  #cell(row, column) {
    return this.#table.tBodies[0].rows[row].cells[column + 1];
  }

  #point(target) {
    const inside = this.#table.contains(target) && target.closest("[role=gridcell]");
    this.#light(inside || null);
  }

  #focus(target) {
    for (const other of this.#table.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    target.tabIndex = 0;
    this.#light(target);
  }

  #light(target) {
    for (const header of this.#table.querySelectorAll("th.on")) header.classList.remove("on");
    if (!target) return this.#rest();
    const row = target.parentElement.sectionRowIndex;
    const column = target.cellIndex - 1;
    target.parentElement.cells[0].classList.add("on");
    this.#table.tHead.rows[0].cells[column + 1].classList.add("on");
    const weight = element("b", "", target.getAttribute("aria-label"));
    this.#readout.replaceChildren(
      quotedPiece(this.#rows[row]), " attends to ", quotedPiece(this.#columns[column]), " with ",
      weight,
    );
  }

  #rest() {
    this.#readout.textContent = "Point at a cell, or move with the arrow keys, to read its weight.";
  }

  #key(event) {
    const from = event.target.closest("[role=gridcell]");
    if (!from || event.altKey || event.metaKey) return;
    let row = from.parentElement.sectionRowIndex;
    let column = from.cellIndex - 1;
    const [lastRow, lastColumn] = [this.#rows.length - 1, this.#columns.length - 1];
    if (event.key === "ArrowDown") row += 1;
    else if (event.key === "ArrowUp") row -= 1;
    else if (event.key === "ArrowRight") column += 1;
    else if (event.key === "ArrowLeft") column -= 1;
    else if (event.key === "Home") [row, column] = [event.ctrlKey ? 0 : row, 0];
    else if (event.key === "End") [row, column] = [event.ctrlKey ? lastRow : row, lastColumn];
    else return;
    event.preventDefault();
    this.#cell(clamp(row, lastRow), clamp(column, lastColumn)).focus();
  }
}

function quotedPiece(piece) {
  return element("q", "", spoken(piece));
}

function clamp(value, last) {
  return Math.min(Math.max(value, 0), last);
}
