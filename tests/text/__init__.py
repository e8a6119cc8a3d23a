"""What becomes of text between a source and the index."""
