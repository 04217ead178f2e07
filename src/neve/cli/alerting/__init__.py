"""Commands of recording and alerting rules."""
