/** Helpers for elements. Text is only ever inserted as text: no code here parses HTML. */

export const byId = (id) => document.getElementById(id);

/** Create an element with children and properties, without those that are undefined. */
export function element(name, properties, ...children) {
  const created = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    // CSS properties through the object model: the page's policy forbids a style attribute.
    if (key.startsWith("--")) created.style.setProperty(key, value);
    else if (value !== undefined) created[key] = value;
  }
  created.append(...children);
  return created;
}

/** Make a button copy what `getText` returns; its label confirms it for a moment. */
export function copyOnClick(button, getText) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    button.textContent = (await copy(getText())) ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = label), 1500);
  });
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // There is no clipboard on a plain HTTP address.
    const focused = document.activeElement;
    const field = element("textarea", { className: "visually-hidden", value: text });
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return copied;
  }
}
