"""Reads one Azure DevOps organization: who may read what, work items, wikis, code and pull requests."""
