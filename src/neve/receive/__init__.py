"""Receiving: what is asked of a request before its bytes are kept, and what is answered."""
