"""Command line: options, exit status, resumed output, local workers."""
