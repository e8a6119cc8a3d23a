"""The privileged plane: crawls sources with their permissions into the stores. It never answers a person."""
