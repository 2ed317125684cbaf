"""``python -m fedrepro`` is the ``fedrepro`` command."""

from fedrepro.cli.main import main

if __name__ == "__main__":
    main()
