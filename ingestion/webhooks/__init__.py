"""The receiver of deliveries: an app of its own that keeps hints and answers, and reads no source."""
