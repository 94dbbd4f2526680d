"""Export for Hugging Face's MarianMT."""
