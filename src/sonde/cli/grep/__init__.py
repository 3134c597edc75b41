"""`sonde grep`: which files are searched, and the forms in which lines are printed, as rg's."""
