"""Development tools: not part of the wheel, and they import nothing but the standard library."""
