/** Small helps with elements. Text goes in as text only: nothing here or elsewhere parses HTML. */

/** A new element with a class and a text. */
export function element(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

/** Says an element's language where it is known; lang="" would say that it is unknowable. */
export function setLanguage(target, language) {
  if (language) target.lang = language;
}

/** Puts text on the clipboard; true where that went well. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // there is no clipboard on a plain HTTP address
  }
}

function copyBySelection(text) {
  const held = document.activeElement;
  const field = element("textarea", "unseen");
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  held?.focus();
  return done;
}

/** A button's label says for a moment what it has done. */
export function acknowledge(button, words) {
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  button.textContent = words;
  setTimeout(() => {
    button.textContent = label;
  }, 1500);
}
