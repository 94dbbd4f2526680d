"""Export for CTranslate2."""
