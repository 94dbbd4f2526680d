/** The translation, sentence by sentence, in the lines of the source. */

import { byId, element } from "./dom.js";
import { segment } from "./segmentation.js";

const root = byId("translation");
let source = segment(""); // source of the translation shown
let space = " ";
let spans = [];
let predictions = [];

/** Return whether a text is the source of the translation shown. */
export const isOf = (text) => source.text === text;

export const count = () => predictions.filter(Boolean).length;
export const length = () => spans.length;
export const isComplete = () => count() === length();

/** Return the numbers of the truncated sentences. */
export const truncated = () => [...spans.keys()].filter((i) => predictions[i]?.truncated);

/** Return the number of the sentence that an element belongs to, or -1. */
export const sentenceOf = (target) => spans.indexOf(target.closest(".sentence"));

/** Return the translation as text, with blank lines and without missing sentences. */
export function text() {
  const line = (numbers) => numbers.flatMap((i) => predictions[i]?.translation ?? []).join(space);
  return source.lines.map(line).join("\n");
}

/** Show another segmented source; until its translations arrive, old ones stay in their places. */
export function show(segmented, sentenceSpace) {
  const placeholders = keepPlaces(segmented.sentences);
  source = segmented;
  space = sentenceSpace;
  predictions = [];
  spans = placeholders.map((old) => element("span", { className: "sentence pending" }, old));
  const lines = spans.length ? source.lines : [];
  root.replaceChildren(
    ...lines.map((line) =>
      element("p", { dir: "auto" }, ...line.flatMap((i) => [space, spans[i]]).slice(1)),
    ),
  );
}

/** Return the old translation to show for each sentence: those around a change keep theirs. */
function keepPlaces(sentences) {
  const before = source.sentences;
  const grown = sentences.length - before.length;
  let change = 0;
  while (change < before.length && sentences[change]?.text === before[change].text) change += 1;
  return sentences.map((_, i) => {
    const old = i <= change ? i : i - grown; // from the start up to the change, else from the end
    return i < change || old >= change ? (spans[old]?.textContent ?? "") : "";
  });
}

/** Fill in the predictions that have arrived. */
export function fill(predictionOf) {
  source.sentences.forEach((sentence, i) => {
    if (predictions[i] || !predictionOf(sentence.text)) return;
    predictions[i] = predictionOf(sentence.text);
    spans[i].textContent = predictions[i].translation;
    spans[i].className = predictions[i].truncated ? "sentence truncated" : "sentence";
  });
}

/** Empty the places of missing sentences. */
export function clearPending() {
  for (const span of root.querySelectorAll(".pending")) span.textContent = "";
}

/** Mark a sentence, where there are several. */
export function select(sentence) {
  spans.forEach((span, i) => {
    span.ariaCurrent = i === sentence && spans.length > 1 ? "true" : null;
  });
}

/** Scroll a sentence into view, within the translation only. */
export function reveal(sentence) {
  if (!spans[sentence]) return;
  const frame = root.getBoundingClientRect();
  const { top, bottom } = spans[sentence].getBoundingClientRect();
  const visible = top >= frame.top && bottom <= frame.bottom;
  if (!visible) root.scrollTop += top - frame.top - frame.height / 3;
}
