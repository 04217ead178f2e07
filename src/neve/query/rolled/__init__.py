"""Questions about points that rolled-up tables answer as well."""
