"""The application: settings, wiring, and services that combine several packages."""
