"""`python -m zerosim`: the same as the `zerosim` command."""

from zerosim.cli import main

main()
