"""Embedders: text to dense vectors, behind one port."""
