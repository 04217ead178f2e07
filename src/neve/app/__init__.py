"""The application: root configuration, wiring, and the jobs that span rooms."""
