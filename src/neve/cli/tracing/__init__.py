"""Commands about traces and the calls between services."""
