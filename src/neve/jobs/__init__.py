"""Background jobs: announcements, batching, policies, schedules, the job queue, workers and status."""
