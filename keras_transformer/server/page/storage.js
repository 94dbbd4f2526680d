/** Stored settings, which persist, and the draft, which lasts as long as the tab. */

const SETTINGS = "keras_transformer.page.settings";
const DRAFT = "keras_transformer.page.draft";

export function loadSettings() {
  const stored = attempt(() => JSON.parse(localStorage.getItem(SETTINGS)));
  return { asYouType: true, ...stored };
}

export const saveSettings = (settings) =>
  attempt(() => localStorage.setItem(SETTINGS, JSON.stringify(settings)));
export const loadDraft = () => attempt(() => sessionStorage.getItem(DRAFT)) ?? "";
export const saveDraft = (text) => attempt(() => sessionStorage.setItem(DRAFT, text));

function attempt(action) {
  try {
    return action();
  } catch {
    return undefined; // blocked, full or damaged: the page works without storage
  }
}
