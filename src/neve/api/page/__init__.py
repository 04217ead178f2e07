"""The web page: its files, sign-in with a cookie, live events, and the small questions of its screens."""
