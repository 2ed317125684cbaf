"""Algorithms whose clients take local steps that the server averages."""
