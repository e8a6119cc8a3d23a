"""Turns what sources hold into clean text, and text into chunks and keyword weights."""
