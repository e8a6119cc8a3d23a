"""Derived data, mined from one item at a time, so that its permission is that item's and nothing else shows in it."""
