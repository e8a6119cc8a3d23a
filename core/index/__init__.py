"""The vector index: its port and its adapters (Qdrant Edge in process, Qdrant server)."""
