"""The Teams connector against a live sandbox."""
