"""The door of those who operate: what tends the lake, seen and changed over HTTP."""
