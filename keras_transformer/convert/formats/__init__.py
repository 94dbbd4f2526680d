"""Formats of other systems, one module each.

A format module has:

    NAME: str                             # value of --from
    DESCRIPTION: str                      # one line for --help and for messages
    OPTIONS: frozenset[str]               # fields of ConvertSettings that it uses, besides dtype
    recognises(source: Path) -> bool      # from names and small files, without reading weights
    read(source: Path, settings: ConvertSettings) -> ForeignModel

It imports TensorFlow and other large libraries in `read` only.
"""
