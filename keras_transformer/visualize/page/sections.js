/** Sections below the maps: heads, rollout, next tokens, hypothesis tree. */

function section(title, ...children) {
  return element("section", { className: "block" }, element("h2", {}, title), ...children);
}

function headsSection(data, state, update) {
  const tables = data.views.map((view, index) => headsTable(view, data.names[index], state, update));
  const rules = Object.entries(data.rules).flatMap(([role, rule]) => [
    element("dt", {}, role),
    element("dd", {}, rule),
  ]);
  return section(
    "Heads",
    element(
      "p",
      { className: "note" },
      "For this sentence, over all tokens. Entropy in nats: 0 if one token has all the weight; the " +
        "maximum if all have the same. Distance: mean |query position − key position|, in tokens.",
    ),
    element("div", { className: "columns" }, ...tables),
    element(
      "details",
      {},
      element("summary", {}, "Rules of the roles"),
      element("dl", {}, ...rules),
    ),
  );
}

function headsTable(view, name, state, update) {
  const titles = ["layer", "head", "role", "entropy", "maximum", "distance"];
  const rows = view.kinds[state.kind].heads.map((each) => {
    const chosen = each.layer === state.layer && each.head === state.head;
    const button = element("button", { type: "button", className: "link" }, `${each.head + 1}`);
    button.ariaLabel = `Show layer ${each.layer + 1}, head ${each.head + 1}`;
    button.addEventListener("click", () => update({ layer: each.layer, head: each.head }));
    const weight = each.role_weight ? ` ${two(each.role_weight)}` : "";
    return element(
      "tr",
      { className: chosen ? "chosen" : "" },
      element("td", {}, String(each.layer + 1)),
      element("td", {}, button),
      element("td", {}, each.role, element("small", {}, weight)),
      element("td", {}, two(each.entropy)),
      element("td", {}, two(each.max_entropy)),
      element("td", {}, each.distance.toFixed(1)),
    );
  });
  const head = element("tr", {}, ...titles.map((text) => element("th", { scope: "col" }, text)));
  const table = element(
    "table",
    { className: "figures" },
    name ? element("caption", {}, name) : null,
    element("thead", {}, head),
    element("tbody", {}, ...rows),
  );
  return element("div", { className: "scroll" }, table);
}

function rolloutSection(data, state, names) {
  if (!data.views.every((view) => view.kinds[state.kind].rollout)) return null;
  const maps = data.views.map((view) => {
    const { rows, columns, rollout } = view.kinds[state.kind];
    const matrix = rollout.map((row) => row.map((weight) => weight / 1000));
    const axes = ["rows = positions of the last layer", "columns = input tokens"];
    return mapTable(matrix, rows, columns, axes, () => {});
  });
  return section(
    `Rollout: ${names.title.toLowerCase()}`,
    element("p", { className: "note" }, data.captions.rollout),
    element("div", { className: "columns" }, ...maps),
  );
}

function nextSection(data) {
  const lists = data.views.map((view, index) => {
    const items = view.next.map(({ chosen, rank, candidates }) =>
      element(
        "li",
        {},
        element("strong", {}, tokenLabel(chosen)),
        element("small", {}, `${two(chosen.probability)}, rank ${rank}`),
        element(
          "ol",
          { ariaLabel: "Most probable tokens" },
          ...candidates.map((each) =>
            element(
              "li",
              {
                className: each.label === chosen.label ? "bar chosen" : "bar",
                "--weight": `${100 * each.probability}%`,
              },
              tokenLabel(each),
              element("small", {}, two(each.probability)),
            ),
          ),
        ),
      ),
    );
    const name = data.names[index];
    const heading = name ? element("h3", {}, name) : null;
    return element("div", {}, heading, element("ol", { className: "next" }, ...items));
  });
  return section(
    "Next tokens",
    element(
      "p",
      { className: "note" },
      "At each position: the token of the translation, its probability and rank given the tokens " +
        "before it, and the most probable tokens.",
    ),
    element("div", { className: "columns" }, ...lists),
  );
}

function beamSection(data) {
  const found = data.views.map((view) => view.beam).filter(Boolean);
  if (!found.length) return null;
  const trees = found.map(({ svg, caption }) => {
    const parsed = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
    const box = element("div", { className: "scroll", tabIndex: 0, role: "region" });
    box.ariaLabel = "Hypothesis tree";
    box.append(document.importNode(parsed, true));
    return element("div", {}, element("p", { className: "note" }, caption), box);
  });
  return section("Hypotheses of the beam search", ...trees);
}
