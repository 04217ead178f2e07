"""The command line. Modules import heavy packages only inside commands, to keep `neve --help` fast."""
