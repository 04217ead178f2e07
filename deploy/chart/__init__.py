"""Values of the Helm chart: one declaration for the defaults, the schema and the page."""
