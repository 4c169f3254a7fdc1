"""A run as the engine recorded it: tables and set-up, before any metric."""
