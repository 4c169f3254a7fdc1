"""A run as it was recorded, which everything that comes after it reads: data, and no figure of it yet."""
