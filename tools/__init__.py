"""Tools for the development of the package; none of them is installed with it."""
