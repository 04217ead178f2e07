"""Routes behind the screens of tenants: an organization's own decisions, rejected records, costs and freshness."""
