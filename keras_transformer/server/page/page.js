/** The page: source text, requests for its sentences, translations and details. */

import * as details from "./details.js";
import { byId, copyOnClick, element } from "./dom.js";
import * as footer from "./footer.js";
import { formatCount, formatDuration, languageName } from "./format.js";
import * as progress from "./progress.js";
import * as queue from "./queue.js";
import { errorMessage, fetchModel } from "./rest.js";
import { segment, sentenceAt, sentenceSpace } from "./segmentation.js";
import { loadDraft, loadSettings, saveDraft, saveSettings } from "./storage.js";
import * as translation from "./translation.js";

const TYPING_PAUSE_MS = 250;
const DETAILS_PAUSE_MS = 120; // while a key is held down, only the last sentence is requested
const MAX_ANNOUNCED = 400; // characters of translation read aloud unasked

const source = byId("source");
const settings = loadSettings();
const timers = {};

let model = null;
let modelChecked = false; // whether the model is known to be the one that is served
let input = segment(""); // text and sentences of the text box
let selected = -1; // index of a sentence of the input
let following = false; // whether to scroll to the translation of the selected sentence on arrival

const texts = ({ sentences }) => sentences.map(({ text }) => text);
const isCurrent = () => translation.isOf(input.text);
const isTranslated = (sentence) => queue.get(input.sentences[sentence]?.text);

/** Fetch the served model; return whether it has changed. Predictions of two models never mix. */
async function checkModel() {
  const served = await fetchModel();
  modelChecked = true;
  if (JSON.stringify(served) === JSON.stringify(model)) return false;
  model = served;
  for (const part of [queue, details, footer]) part.setModel(model);
  const { source: from, target: to } = model.languages ?? {};
  const title = from && to ? `${languageName(from)} to ${languageName(to)}` : "Translate";
  document.title = `${title} \u00b7 ${model.name}`;
  byId("title").textContent = title;
  byId("model").textContent = `${model.name}, version ${model.version}`;
  setLanguage(from, "source-label", ["source", "mirror", "details-source"]);
  setLanguage(to, "translation-label", ["translation", "announcement"]);
  return true;
}

function setLanguage(language, label, ids) {
  if (!language) return;
  byId(label).textContent = languageName(language);
  for (const id of ids) byId(id).lang = language;
}

// Source text
function readInput() {
  saveDraft(source.value);
  input = segment(source.value);
  selected = sentenceAt(input, source.selectionStart);
  const { length } = input.sentences;
  byId("source-count").textContent = length ? formatCount(length, "sentence") : "";
  footer.setSentences(texts(input));
  drawMirror();
}

/** The mirror lies below the text box: it gives the box its height and marks the sentence. */
function drawMirror() {
  const { text, sentences } = input;
  const { start, end } = sentences.length > 1 ? sentences[selected] : { start: 0, end: 0 };
  const mark = end ? element("mark", {}, text.slice(start, end)) : "";
  // A last line needs a character to have a height.
  byId("mirror").replaceChildren(text.slice(0, start), mark, text.slice(end), "\u200b");
}

function onInput(event) {
  readInput();
  clearTimeout(timers.typing);
  if (event.isComposing) return; // the text is still being composed
  following = !event.inputType?.startsWith("insertFrom"); // pasted text is read from its start
  if (settings.asYouType) timers.typing = setTimeout(translate, TYPING_PAUSE_MS);
  else progress.end(isCurrent() ? "" : "The text has changed since.");
}

// Translation
async function translate() {
  clearTimeout(timers.typing);
  let shown = input;
  let changed = false;
  try {
    changed = !modelChecked && (await checkModel());
  } catch (error) {
    return showError(error);
  }
  if (settings.asYouType) shown = input; // otherwise text typed meanwhile is not requested
  const done = !changed && translation.isOf(shown.text) && translation.isComplete();
  if (done) return setNotice("error");
  translation.show(shown, sentenceSpace(model.languages?.target));
  progress.begin();
  showTranslations(); // those in the cache
  queue.request(texts(shown));
}

function showTranslations() {
  translation.fill(queue.get);
  progress.advance(translation.count(), translation.length());
  byId("copy").disabled = translation.count() === 0;
  showTruncated();
  if (!isCurrent()) return;
  select(selected);
  if (following && isTranslated(selected)) {
    following = false;
    translation.reveal(selected);
  }
}

function showTruncated() {
  const [first, ...others] = translation.truncated();
  const name = others.length ? `${others.length + 1} sentences` : `Sentence ${first + 1}`;
  const message = `${name} reached the model's limit: the translation may be incomplete.`;
  setNotice("truncated", first === undefined ? "" : message);
}

/** Show a notice, or hide it without a message. */
function setNotice(id, message = "") {
  const notice = byId(id);
  const line = notice.firstElementChild;
  // The same message again would be read aloud at every pause in typing.
  if (notice.hidden || line.textContent !== message) line.textContent = message;
  notice.hidden = !message;
}

function showDone(count, ms) {
  setNotice("error");
  progress.end(count ? `${formatCount(count, "sentence")} in ${formatDuration(ms)}` : "");
  const text = translation.text();
  const summary = `${formatCount(translation.length(), "sentence")} translated.`;
  byId("announcement").textContent = text.length <= MAX_ANNOUNCED ? text : summary;
}

function showError(error) {
  translation.clearPending();
  if (!isTranslated(selected)) details.hide();
  modelChecked = false; // another model may be served now
  progress.end();
  setNotice("error", `${errorMessage(error)} Your text is still here.`);
}

/** Select a sentence; its details follow after a pause. */
function select(sentence) {
  if (sentence !== selected) {
    clearTimeout(timers.details);
    timers.details = undefined;
    selected = sentence;
    drawMirror();
  }
  translation.select(sentence);
  if (!input.sentences[sentence]) details.hide();
  else timers.details ??= setTimeout(showDetails, DETAILS_PAUSE_MS);
}

function showDetails() {
  timers.details = undefined;
  if (isTranslated(selected)) details.show(input, selected);
}

function moveTo(sentence) {
  if (!isCurrent() || !input.sentences[sentence]) return;
  select(sentence);
  translation.reveal(sentence);
}

function followCaret() {
  if (document.activeElement !== source || source.value !== input.text) return;
  const sentence = sentenceAt(input, source.selectionStart);
  if (sentence !== selected) moveTo(sentence);
}

// Controls
source.addEventListener("input", onInput);
source.addEventListener("compositionend", onInput);
document.addEventListener("selectionchange", followCaret);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  translate();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden || !model) return;
  modelChecked = false; // after a while away another version may be served
  if (settings.asYouType) translate();
});
byId("translation").addEventListener("click", ({ target }) => {
  if (getSelection().isCollapsed) moveTo(translation.sentenceOf(target)); // else it marked text
});
byId("translate").addEventListener("click", translate);
byId("retry").addEventListener("click", () => {
  source.focus(); // the button will be hidden and must not take the focus with it
  translate();
});
byId("show-truncated").addEventListener("click", () => {
  const numbers = translation.truncated();
  moveTo(numbers.find((sentence) => sentence > selected) ?? numbers[0]);
});
byId("previous").addEventListener("click", () => moveTo(selected - 1));
byId("next").addEventListener("click", () => moveTo(selected + 1));
byId("as-you-type").addEventListener("change", ({ target }) => {
  settings.asYouType = target.checked;
  saveSettings(settings);
  if (settings.asYouType && !isCurrent()) translate();
});
copyOnClick(byId("copy"), translation.text);
Object.assign(queue.handlers, { progress: showTranslations, error: showError, done: showDone });

if (/Mac|iPhone|iPad/.test(navigator.platform)) byId("shortcut").textContent = "\u2318 Enter";
byId("as-you-type").checked = settings.asYouType;
source.value ||= loadDraft();
readInput();
translate();
