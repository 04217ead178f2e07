"""Routes behind the screens of operators: tables in pages, the ledger, layouts, what-if, and costs."""
