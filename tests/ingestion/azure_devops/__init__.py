"""Tests of the Azure DevOps connector, most of them against a live sandbox."""
