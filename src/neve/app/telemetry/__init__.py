"""What Neve says of itself: its own spans and log lines as OTLP, to any receiver or into its own lake."""
