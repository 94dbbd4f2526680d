"""Search over a step function: beam search, greedy search and sampling."""
