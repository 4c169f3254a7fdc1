"""Configurations of real switches as parts of scenarios."""
