"""Go's `text/template`: parser, execution, built-in functions, `printf`."""
