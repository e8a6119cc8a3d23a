"""The Teams connector: directory, rosters and channel threads through Microsoft Graph."""
