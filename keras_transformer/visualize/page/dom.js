/** Helpers for elements. Text is only ever inserted as text: no code here parses HTML. */

const byId = (id) => document.getElementById(id);

/** Create an element with children and properties; "--name" sets a CSS property. */
function element(name, properties, ...children) {
  const created = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("--")) created.style.setProperty(key, value);
    else if (key === "data") Object.assign(created.dataset, value);
    else if (value !== undefined) created[key] = value;
  }
  created.append(...children.filter((child) => child !== null));
  return created;
}

/** Return a token's label, whose space mark is thin and whose name is what it says. */
function tokenLabel({ label, kind }) {
  const parts = label.split("\u02cd");
  const marked = parts.flatMap((text, index) =>
    index ? [element("span", { className: "mark" }, "\u02cd"), text] : [text],
  );
  return element("bdi", { className: `token ${kind}` }, ...marked);
}

/** Return a row of radio buttons that look like one control. */
function choice(legend, name, options, chosen, onChange) {
  const buttons = options.map(({ value, text }) => {
    const input = element("input", { type: "radio", name, value, checked: value === chosen });
    input.addEventListener("change", () => onChange(value));
    return element("label", {}, input, element("span", {}, text));
  });
  return element("fieldset", {}, element("legend", {}, legend), ...buttons);
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const two = (number) => number.toFixed(2);
