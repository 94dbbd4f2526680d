"""Data pipeline: pairs, cleaning, tokenizer, encoded store, batch plan, tf.data."""
