"""Lexical elements that the query languages share: strings, numbers, durations, positions and label matchers."""
