"""All tests: beside unit tests, contract/ (one suite, every adapter), worlds/ (end to end), invariants/."""
