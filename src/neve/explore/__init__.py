"""Answers about traces, services and their calls, which query workers compute for the page and other clients."""
