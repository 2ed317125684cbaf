"""Fair and personalised methods beside AFL, on the same draws and with the same communication."""
