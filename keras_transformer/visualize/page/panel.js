/** One sentence pair: heads as thumbnails, words, the large map, the roles of the heads. */

function panel(view, name, state, names, update) {
  const attention = view.kinds[state.kind];
  const { matrix, columns } = weightsOf(view, state);
  const axes = [names.rows, names.columns];
  const words = wordRows(attention.rows, columns, matrix, axes, state.query, (t) => {
    state.query = t;
    words.select(t);
    markRow(t);
  });
  const table = mapTable(matrix, attention.rows, columns, axes, (t) => {
    state.query = t;
    words.select(t);
    markRow(t);
  });
  function markRow(t) {
    for (const row of table.querySelectorAll("tbody tr"))
      row.classList.toggle("chosen", row.sectionRowIndex === t);
  }
  markRow(Math.min(state.query, attention.rows.length - 1));
  return element(
    "section",
    { className: "panel" },
    name ? element("h2", {}, name) : null,
    name ? pairText(view) : null,
    thumbnails(view, state, update),
    words.box,
    table,
  );
}

function pairText(view) {
  return element(
    "p",
    { className: "pair" },
    element("bdi", {}, view.sentence),
    element("span", { className: "arrow" }, " → "),
    element("bdi", {}, view.translation || "(empty)"),
    element("small", {}, view.forced ? " given translation" : " the model's translation"),
  );
}

function thumbnails(view, state, update) {
  const attention = view.kinds[state.kind];
  const layer = Math.min(state.layer, attention.layers.length - 1);
  const heads = attention.layers[layer].map((_, head) => head);
  const all = heads.length > 1 ? ["mean", ...heads] : heads;
  const buttons = all.map((head) => {
    const found = attention.heads.find((each) => each.layer === layer && each.head === head);
    const text = head === "mean" ? "mean" : `head ${head + 1}`;
    const button = element(
      "button",
      {
        type: "button",
        className: "thumbnail",
        ariaPressed: String(head === state.head),
        data: { head },
      },
      thumbnail(weightsOf(view, { ...state, head }).matrix),
      element("span", {}, text),
      found ? element("small", {}, found.role) : element("small", {}, "of the heads"),
    );
    button.addEventListener("click", () => update({ head }));
    return button;
  });
  return element("div", { className: "thumbnails", role: "group", ariaLabel: "Heads" }, ...buttons);
}

/** The difference of two views. */
function differencePanel(data, state, names) {
  const found = difference(data.views, data.differences.kinds[state.kind], state);
  const axes = [names.rows, names.columns];
  const readout = element("p", { className: "readout" }, "Point at a cell to read it.");
  const table = mapTable(found.matrix, found.rows, found.columns, axes, read, true);
  function read(t, s) {
    const [row, column] = [found.rows[t].label, found.columns[s].label];
    readout.replaceChildren(
      element("q", {}, row),
      " to ",
      element("q", {}, column),
      ` ${found.matrix[t][s] < 0 ? "" : "+"}${two(found.matrix[t][s])}`,
    );
  }
  return element(
    "section",
    { className: "panel" },
    element("h2", {}, "Difference"),
    element("p", { className: "note" }, data.differences.caption),
    scale(true),
    readout,
    table,
  );
}

function scale(signed) {
  const ends = signed ? ["−1", "1"] : ["0", "1"];
  return element(
    "p",
    { className: "scale", ariaHidden: "true" },
    ends[0],
    element("span", { className: signed ? "bar signed" : "bar" }),
    ends[1],
  );
}
