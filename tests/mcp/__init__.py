"""Agents ask by the Model Context Protocol: the same answers as over HTTP, for the same people, and nothing more."""
