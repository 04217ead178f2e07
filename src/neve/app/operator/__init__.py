"""Functions behind the screens for operators and tenants: tables, ledger, quarantine, sampling, layouts and costs."""
