"""From weights to text: search over a step function, and lines in, lines out."""
