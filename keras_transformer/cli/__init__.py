"""The command line: options, exit status, streams, and one module for each larger command."""
