"""Tests of the privileged plane."""
