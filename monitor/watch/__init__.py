"""Runs that grow: what is new in their logs since the last look."""
