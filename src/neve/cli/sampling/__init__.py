"""Commands that sample telemetry: tail keeps whole traces by policies, reservoir keeps weighted records."""
