/** Wires the page together: text in, sentences asked for, translation and details out. */

import { Closer } from "./closer.js";
import { acknowledge, copy, element, setLanguage } from "./dom.js";
import { Footer } from "./footer.js";
import { loadDraft, loadSettings, saveDraft, saveSettings } from "./memory.js";
import { Output } from "./output.js";
import { Progress } from "./progress.js";
import { Queue } from "./queue.js";
import { fetchModel, inWords, predict } from "./rest.js";
import { joiner, sentenceAt, splitText } from "./text.js";
import { amount, duration, languageName } from "./words.js";

const TYPING_PAUSE_MS = 250;
const CLOSER_PAUSE_MS = 120; // so that holding a key down asks for the last sentence only
const LONGEST_SPOKEN = 400; // characters of translation read aloud without being asked for

const find = (id) => document.getElementById(id);
const source = find("source");
const settings = loadSettings();
const timers = {};

let model = null;
let met = false; // whether the model is known to be the one that is served
let written = splitText("", undefined); // what is in the box
let chosen = -1; // the sentence of it that is looked at
let following = false; // whether to bring its translation into view when it comes

const output = new Output(find("translation"), choose);
const progress = new Progress(find("status"), find("progress"));
const footer = new Footer(find("footer"));
const closer = new Closer(find("closer"), async (signature, text, signal) => {
  const [answer] = await predict(model.name, signature, [text], signal);
  return answer;
});
const queue = new Queue((texts, signal) => predict(model.name, "serving_default", texts, signal), {
  answers: () => {
    find("error").hidden = true;
    showAnswers();
  },
  error: showError,
  done: showDone,
});

// The model

/**
 * Learns which model answers. The answers of another version are not mixed with these.
 * @returns {Promise<boolean>} whether it is another than before
 */
async function meetModel() {
  const found = await fetchModel();
  met = true;
  if (JSON.stringify(found) === JSON.stringify(model)) return false;
  model = found;
  queue.forget();
  closer.forget();
  const { source: from, target: to } = languages();
  const title = from && to ? `${languageName(from)} to ${languageName(to)}` : "Translate";
  find("title").textContent = title;
  document.title = `${title} \u00b7 ${model.name}`;
  find("model-line").textContent = `${model.name}, version ${model.version}`;
  if (from) find("source-label").textContent = languageName(from);
  if (to) find("translation-label").textContent = languageName(to);
  for (const id of ["source", "mirror"]) setLanguage(find(id), from);
  for (const id of ["translation", "spoken"]) setLanguage(find(id), to);
  closer.languages = languages();
  footer.model = model;
  read(); // again, as sentences end differently in different languages
  return true;
}

function languages() {
  return model?.languages ?? {};
}

// The text

/** Takes in what is in the box. */
function read() {
  saveDraft(source.value);
  written = splitText(source.value, languages().source);
  chosen = sentenceAt(written, source.selectionStart);
  const count = written.sentences.length;
  find("source-count").textContent = count ? amount(count, "sentence") : "";
  footer.texts = written.sentences.map(({ text }) => text);
  paintMirror();
}

/** The mirror lies under the box: it gives the box its height and marks the chosen sentence. */
function paintMirror() {
  const { text, sentences } = written;
  const nodes = [text, "\u200b"]; // the last line needs a character to have a height
  if (sentences.length > 1) {
    const { start, end } = sentences[chosen];
    const mark = element("mark", "", text.slice(start, end));
    nodes.splice(0, 1, text.slice(0, start), mark, text.slice(end));
  }
  find("mirror").replaceChildren(...nodes);
}

function onInput(event) {
  read();
  clearTimeout(timers.typing);
  // While a character is being composed, the text is not yet what will be meant.
  if (event.isComposing) return;
  // Of a text that was pasted or dropped, the beginning comes first and is read first.
  following = !event.inputType?.startsWith("insertFrom");
  if (settings.asYouType) timers.typing = setTimeout(translate, TYPING_PAUSE_MS);
  else progress.end(isCurrent() ? "" : "The text has changed since.");
}

function isCurrent() {
  return output.document?.text === written.text;
}

async function translate() {
  clearTimeout(timers.typing);
  let changed = false;
  try {
    changed = !met && (await meetModel());
  } catch (error) {
    showError(error);
    return;
  }
  if (!changed && isCurrent() && output.complete) {
    find("error").hidden = true;
    return;
  }
  output.show(written, joiner(languages().target));
  progress.begin();
  showAnswers(); // those that are there already
  queue.want(written.sentences.map(({ text }) => text));
}

// The answers

function showAnswers() {
  output.fill((text) => queue.answer(text));
  progress.advance(output.answered, output.document.sentences.length);
  find("copy").disabled = output.answered === 0;
  showCut();
  if (!isCurrent()) return;
  choose(chosen);
  if (following && queue.answer(written.sentences[chosen]?.text)) {
    following = false;
    output.reveal(chosen);
  }
}

function showDone(asked, milliseconds) {
  find("error").hidden = true;
  const count = output.document.sentences.length;
  // Nothing was asked for where every answer was known.
  progress.end(asked ? `${amount(asked, "sentence")} in ${duration(milliseconds)}` : "");
  const { text } = output;
  const short = text.length <= LONGEST_SPOKEN;
  find("spoken").textContent = short ? text : `${amount(count, "sentence")} translated.`;
}

function showError(error) {
  output.giveUp();
  if (!queue.answer(written.sentences[chosen]?.text)) closer.hide();
  met = false; // another model may have taken its place
  progress.end("");
  const words = `${inWords(error)} Your text is still here.`;
  const line = find("error").querySelector("p");
  // The same words once more would be read aloud at every pause in typing.
  if (line.textContent !== words || find("error").hidden) line.textContent = words;
  find("error").hidden = false;
}

function showCut() {
  const { cut } = output;
  find("cut").hidden = cut.length === 0;
  if (!cut.length) return;
  const one = cut.length === 1;
  find("cut").querySelector("p").textContent = one
    ? `Sentence ${cut[0] + 1} reached the model's limit: its translation may be incomplete.`
    : `${cut.length} sentences reached the model's limit: their translations may be incomplete.`;
  find("cut").querySelector("button").textContent = one ? "Show it" : "Show next";
}

// The sentence looked at

/** Looks at a sentence of the text, once its translation is there. */
function choose(sentence) {
  if (sentence !== chosen) {
    clearTimeout(timers.closer);
    timers.closer = undefined;
    chosen = sentence;
    paintMirror();
  }
  output.choose(sentence);
  if (!written.sentences[sentence]) closer.hide();
  else timers.closer ??= setTimeout(lookCloser, CLOSER_PAUSE_MS);
}

function lookCloser() {
  timers.closer = undefined;
  if (queue.answer(written.sentences[chosen]?.text)) closer.show(written, chosen);
}

/** Moves to another sentence of the same text. */
function move(sentence) {
  if (!isCurrent() || !written.sentences[sentence]) return;
  choose(sentence);
  output.reveal(sentence);
}

function followCaret() {
  if (document.activeElement !== source || source.value !== written.text || !isCurrent()) return;
  const sentence = sentenceAt(written, source.selectionStart);
  if (sentence !== chosen) move(sentence);
}

// The controls

source.addEventListener("input", onInput);
source.addEventListener("compositionend", onInput);
document.addEventListener("selectionchange", followCaret);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  translate();
});
document.addEventListener("visibilitychange", () => {
  // After a while away another version may be served. Without a server, typing will tell.
  if (document.hidden || !model) return;
  met = false;
  if (settings.asYouType) translate();
});
find("go").addEventListener("click", translate);
find("error").querySelector("button").addEventListener("click", () => {
  source.focus(); // the button is about to go, and the keyboard needs a place
  translate();
});
find("cut").querySelector("button").addEventListener("click", () => {
  const { cut } = output;
  move(cut.find((sentence) => sentence > chosen) ?? cut[0]); // one after the other, and round
});
find("before").addEventListener("click", () => move(chosen - 1));
find("after").addEventListener("click", () => move(chosen + 1));
find("copy").addEventListener("click", async () => {
  acknowledge(find("copy"), (await copy(output.text)) ? "Copied" : "Not copied");
});
find("as-you-type").addEventListener("change", (event) => {
  settings.asYouType = event.target.checked;
  saveSettings(settings);
  if (settings.asYouType && !isCurrent()) translate();
});

if (/Mac|iPhone|iPad/.test(navigator.platform)) find("go-key").textContent = "\u2318 Enter";
find("as-you-type").checked = settings.asYouType;
if (!source.value) source.value = loadDraft();
read();
translate();
