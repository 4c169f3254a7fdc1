"""A real lab: set up, verified, driven, and read into the folder of a run."""
