/** Words: the query under the pointer, and the weights of the keys that it looks at. */

const LISTED = 4; // keys that the line of text names

/** Return two rows of words with a `select(row)` method. */
function wordRows(rows, columns, matrix, names, selected, onSelect) {
  const readout = element("p", { className: "readout", ariaLive: "polite" });
  const queries = rows.map((token, t) => word(token, "queries", t));
  const keys = columns.map((token, s) => word(token, "keys", s));

  function word(token, kind, index) {
    const number = element("small", { ariaHidden: "true" });
    const button = element(
      "button",
      { type: "button", className: "word", ariaLabel: token.spoken, data: { kind, index } },
      tokenLabel(token),
      number,
    );
    return button;
  }

  function paint(buttons, weights, chosen) {
    buttons.forEach((button, index) => {
      const weight = weights ? weights[index] : 0;
      button.style.setProperty("--weight", `${100 * Math.min(weight, 1)}%`);
      button.classList.toggle("strong", weight > 0.5);
      button.classList.toggle("chosen", index === chosen);
      button.setAttribute("aria-pressed", String(index === chosen));
      button.lastChild.textContent = weights && weight >= 0.005 ? two(weight) : "";
    });
  }

  function describe(tokens, weights) {
    const order = weights.map((_, index) => index).sort((a, b) => weights[b] - weights[a]);
    const named = order.slice(0, LISTED).filter((index) => weights[index] >= 0.005);
    return named.flatMap((index, place) => [
      place ? ", " : "",
      element("q", {}, tokens[index].spoken),
      ` ${two(weights[index])}`,
    ]);
  }

  function select(t) {
    paint(queries, null, t);
    paint(keys, matrix[t], -1);
    const seen = describe(columns, matrix[t]);
    const text = seen.length ? [" looks at ", ...seen] : [" looks at nothing else"];
    readout.replaceChildren(element("q", {}, rows[t].spoken), ...text);
  }

  function selectKey(s) {
    const column = matrix.map((row) => row[s]);
    paint(keys, null, s);
    paint(queries, column, -1);
    const seen = describe(rows, column);
    const text = seen.length ? [" is looked at by ", ...seen] : [" is looked at by no query"];
    readout.replaceChildren(element("q", {}, columns[s].spoken), ...text);
  }

  const lists = [queries, keys].map((buttons, index) =>
    element(
      "div",
      { className: "words", role: "group", ariaLabel: names[index] },
      element("span", { className: "axis", ariaHidden: "true" }, names[index]),
      ...buttons,
    ),
  );
  const box = element("div", { className: "sentence" }, ...lists, readout);
  function show({ target }) {
    const button = target.closest?.(".word");
    if (!button) return;
    const index = Number(button.dataset.index);
    if (button.dataset.kind === "queries") onSelect(index);
    else selectKey(index);
  }
  for (const event of ["pointerover", "focusin", "click"]) box.addEventListener(event, show);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const button = event.target.closest(".word");
    if (!step || !button) return;
    event.preventDefault();
    const buttons = button.dataset.kind === "queries" ? queries : keys;
    buttons[Number(button.dataset.index) + step]?.focus();
  });
  select(Math.min(selected, rows.length - 1));
  return { box, select };
}
