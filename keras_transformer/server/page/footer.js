/** What is being served, and the request as a command. */

import { acknowledge, copy, element } from "./dom.js";
import { predictAddress } from "./rest.js";
import { curlCommand } from "./shell.js";
import { amount } from "./words.js";

const LONGEST = 32; // sentences in one command, as in one request of the page
const EXAMPLE = "Hello."; // where nothing has been typed

const SEARCH = {
  beam: (value) => `beam ${value}`,
  alpha: (value) => `length penalty ${value}`,
  n_best: (value) => amount(value, "alternative"),
  max_tokens: (value) => `at most ${amount(value, "piece")}`,
};

export class Footer {
  #root;
  #model = null;
  #texts = [];

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
    this.#find("#curl").addEventListener("toggle", () => this.#writeCurl());
    const button = this.#find("#curl-copy");
    button.addEventListener("click", async () => {
      const done = await copy(this.#find("#curl-line").textContent);
      acknowledge(button, done ? "Copied" : "Not copied");
    });
  }

  /** @param {object} model from fetchModel */
  set model(model) {
    this.#model = model;
    const search = model.search ?? {};
    const settings = Object.keys(SEARCH)
      .filter((key) => search[key] !== undefined)
      .map((key) => SEARCH[key](search[key]));
    const facts = [
      ["Model", `${model.name}, version ${model.version}`],
      ["Search", settings.join(", ")],
      ["REST", `POST ${predictAddress(model.name)}`],
    ];
    const pairs = facts.filter(([, value]) => value).map(([name, value]) => {
      const pair = element("div");
      pair.append(element("dt", "", name), element("dd", "", value));
      return pair;
    });
    this.#find("#facts").replaceChildren(...pairs);
    this.#writeCurl();
  }

  /** @param {string[]} texts the sentences that are typed */
  set texts(texts) {
    this.#texts = texts;
    this.#writeCurl();
  }

  #writeCurl() {
    if (this.#model === null || !this.#find("#curl").open) return;
    const texts = this.#texts.length ? this.#texts.slice(0, LONGEST) : [EXAMPLE];
    this.#find("#curl-line").textContent = curlCommand(predictAddress(this.#model.name), texts);
    this.#find("#curl-note").textContent =
      this.#texts.length > LONGEST
        ? `The first ${LONGEST} of ${this.#texts.length} sentences.`
        : "For sh, bash and zsh.";
  }

  #find(id) {
    return this.#root.querySelector(id);
  }
}
