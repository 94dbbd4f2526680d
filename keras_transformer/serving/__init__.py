"""From a trained run to a SavedModel and a local server for it, or to CTranslate2."""
