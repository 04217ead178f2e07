"""Plan what a statement reads: the predicates that select files, the files, and the SQL that reads them."""
