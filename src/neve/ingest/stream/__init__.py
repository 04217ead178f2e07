"""Streams taken in once each: positions and records land in the same commit, so that a repeated batch adds nothing."""
