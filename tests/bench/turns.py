"""The order in which the benchmarks measure what they compare."""


def in_turns(rounds, named):
    """Yields each (name, value) of `named` once a round, every second round backwards: the first of a round can come out slower, whichever it is."""
    for number in range(rounds):
        yield from list(named.items())[:: -1 if number % 2 else 1]
