"""What is read: conditions that tell files apart, the files, and the SQL that reads them."""
