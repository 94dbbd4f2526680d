/** The progress bar and the status line below the translation. */

import { byId } from "./dom.js";

const SLOW_MS = 400; // a shorter wait shows nothing
const BAR_SENTENCES = 8; // fewer need no bar

const bar = byId("progress");
let timer;
let slow = false;

export function begin() {
  clearTimeout(timer);
  timer = setTimeout(draw, SLOW_MS);
}

export function advance(translated, total) {
  bar.max = total;
  bar.value = translated;
  if (slow) draw();
}

export function end(message = "") {
  clearTimeout(timer);
  slow = false;
  bar.hidden = true;
  byId("status").textContent = message;
}

function draw() {
  slow = true;
  bar.hidden = bar.max < BAR_SENTENCES;
  byId("status").textContent = bar.hidden
    ? "Translating\u2026"
    : `Translating: ${bar.value} of ${bar.max} sentences`;
}
