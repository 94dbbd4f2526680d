"""Generator of the built-in corpus: a grammar of English sentences and their translations.

The grammar combines about a thousand words in patterns of simple sentences and writes each
sentence in English and Chinese at once, so that the translation is right by construction.
Every English sentence has one translation. ``python -m tools.phrasebook`` writes the file
that the package reads.
"""
