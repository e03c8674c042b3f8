"""Metrics, comparison, recording, pages and the command line of Ratiometer."""
