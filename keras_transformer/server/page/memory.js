/** What the browser keeps: the settings for good, the text as long as the tab lives. */

const SETTINGS = "keras_transformer.page.settings";
const DRAFT = "keras_transformer.page.draft";

/** @returns {{asYouType: boolean}} */
export function loadSettings() {
  const defaults = { asYouType: true };
  try {
    return { ...defaults, ...JSON.parse(localStorage.getItem(SETTINGS)) };
  } catch {
    return defaults; // storage is closed to the page, or holds something else
  }
}

export function saveSettings(settings) {
  keep(() => localStorage.setItem(SETTINGS, JSON.stringify(settings)));
}

/** The text as it was before the page was loaded again. */
export function loadDraft() {
  return keep(() => sessionStorage.getItem(DRAFT)) ?? "";
}

export function saveDraft(text) {
  keep(() => sessionStorage.setItem(DRAFT, text));
}

function keep(action) {
  try {
    return action();
  } catch {
    return undefined; // closed or full: the page works without
  }
}
