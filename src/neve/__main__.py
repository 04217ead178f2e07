"""`python -m neve`: the command, for those who know the interpreter and not where its scripts are."""

from neve.cli.main import main

main()
