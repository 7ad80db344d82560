"""`python -m signoff.cli` is the `signoff` command."""

from signoff.cli.entry import main

if __name__ == "__main__":
    main()
