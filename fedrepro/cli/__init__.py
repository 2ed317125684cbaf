"""The command line; `fedrepro.cli.main` has the entry point."""
