"""Files taken in once each: found, told apart by content, decoded on Spark, remembered in a ledger."""
