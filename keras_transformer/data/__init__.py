"""Text in, batches out: corpora, cleaning, tokenizer, encoded store, batch plan."""
