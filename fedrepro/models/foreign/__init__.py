"""Models of other libraries: what makes them models of this one, a file for each library."""
