/** Attention weights of a view: one map for the chosen kind, layer and head. */

/** Return a map, its column tokens and the place of each column in the view. */
function weightsOf(view, { kind, layer, head, end }) {
  const { layers, columns } = view.kinds[kind];
  const heads = layers[Math.min(layer, layers.length - 1)];
  const chosen = head === "mean" ? heads : [heads[Math.min(head, heads.length - 1)]];
  const whole = chosen[0].map((row, t) =>
    row.map((_, s) => sum(chosen.map((values) => values[t][s])) / chosen.length / 1000),
  );
  const all = columns.map((_, s) => s);
  if (end) return { matrix: whole, columns, places: all };
  const places = all.filter((s) => columns[s].kind !== "special");
  const matrix = whole.map((row) => {
    const kept = places.map((s) => row[s]);
    const total = sum(kept);
    // Weights are in thousandths: below that only rounding is left.
    return kept.map((weight) => (total >= 0.001 ? weight / total : 0));
  });
  return { matrix, columns: places.map((s) => columns[s]), places };
}

/** Return second minus first for the pairs of tokens that correspond. */
function difference(views, pairs, state) {
  const [first, second] = views.map((view) => weightsOf(view, state));
  const columns = pairs.columns
    .map(([one, other]) => [first.places.indexOf(one), second.places.indexOf(other)])
    .filter(([one, other]) => one >= 0 && other >= 0);
  const label = (one, other) =>
    one.label === other.label ? one : { ...one, label: `${one.label} → ${other.label}` };
  const rowsOf = (index) => views[index].kinds[state.kind].rows;
  return {
    matrix: pairs.rows.map(([t, u]) =>
      columns.map(([s, v]) => second.matrix[u][v] - first.matrix[t][s]),
    ),
    rows: pairs.rows.map(([t, u]) => label(rowsOf(0)[t], rowsOf(1)[u])),
    columns: columns.map(([s, v]) => label(first.columns[s], second.columns[v])),
  };
}
