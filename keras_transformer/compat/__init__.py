"""All uses of private parts of other libraries: one file per library, each use tested."""
