"""TLS of Neve's own ports: settings, certificates, and their renewal while the service runs."""
