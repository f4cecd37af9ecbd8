"""Fuzzers: mutated inputs of every kind, each of which the product must accept or refuse cleanly.

A fuzzer is a module here with the constant `CASES` (how many cases the test suite runs) and the function
`case(random, folder) -> str`, which makes one input in the empty `folder` (also the working directory), runs the product on it
and returns a label such as "accepted" or "refused". An exception, a dead process, a hang and excessive memory are failures.

A fuzzer may have a function `prepare()`, which runs once in each process before its cases; its time does not count.

The test suite runs the first cases of each fuzzer (`test_fuzz.py`). More, with another seed:

    python -m tests.fuzz descriptions --cases 10000 --seed 7
"""
