"""Search over a step function: beam, greedy and sampling."""
