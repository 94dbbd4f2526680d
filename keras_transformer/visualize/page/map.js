/** Heat maps: a large one as a table, and thumbnails as canvases. */

const WIDE = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}]/u;

/** Return a table of weights, rows = queries; `signed` maps go from -1 to 1. */
function mapTable(matrix, rows, columns, names, onHover, signed = false) {
  const head = element(
    "tr",
    {},
    element("td", {}),
    ...columns.map((token) => {
      const upright = WIDE.test(token.label) ? "upright" : "";
      return element("th", { scope: "col", className: upright }, tokenLabel(token));
    }),
  );
  const body = rows.map((token, t) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, tokenLabel(token)),
      ...columns.map((_, s) => cell(matrix[t][s], t, s, signed)),
    ),
  );
  const table = element(
    "table",
    { className: "map", ariaLabel: `${names[0]}; ${names[1]}` },
    element("thead", {}, head),
    element("tbody", {}, ...body),
  );
  table.style.setProperty("--cell", `${Math.max(12, Math.min(32, 620 / columns.length))}px`);
  table.addEventListener("pointerover", ({ target }) => {
    const found = target.closest("td[data-t]");
    if (found) onHover(Number(found.dataset.t), Number(found.dataset.s));
  });
  return element(
    "figure",
    {},
    element("figcaption", { className: "axis" }, `${names[0]} · ${names[1]}`),
    element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "map" }, table),
  );
}

function cell(weight, t, s, signed) {
  const share = `${100 * Math.min(Math.abs(weight), 1)}%`;
  const sign = signed && weight < 0 ? "below" : "";
  return element(
    "td",
    { className: sign, title: two(weight), "--weight": share, data: { t, s } },
    element("span", { className: "hidden" }, two(weight)),
  );
}

/** Return a small picture of a map. */
function thumbnail(matrix) {
  const canvas = element("canvas", {
    width: matrix[0].length,
    height: matrix.length,
    ariaHidden: "true",
  });
  const context = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  context.fillStyle = style.getPropertyValue("--heat").trim();
  matrix.forEach((row, t) =>
    row.forEach((weight, s) => {
      context.globalAlpha = Math.min(weight, 1);
      context.fillRect(s, t, 1, 1);
    }),
  );
  return canvas;
}
