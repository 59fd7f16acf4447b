"""What an operator is: contracts, checks, arguments, task chains, and how one is found."""
