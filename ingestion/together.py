"""Work that is done for many at once, and for each alone where that fails by the fault of one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from core.errors import ContextEngineError, LeaseLostError, StoreUnavailableError

T = TypeVar("T")
R = TypeVar("R")


def together(
    work: Callable[[Sequence[T]], Sequence[R]], many: Sequence[T]
) -> tuple[list[tuple[T, R]], list[tuple[T, ContextEngineError]]]:
    """What `work` gives for each, and those for which it failed even alone, with the error.

    `work` answers in the order of what it is given, and can be repeated: it is called with one at a time after it
    failed with many. A store that is down, or a lease that was lost, is nobody's fault: StoreUnavailableError and
    LeaseLostError end it all.
    """
    if not many:
        return [], []
    try:
        return list(zip(many, work(many), strict=True)), []
    except (StoreUnavailableError, LeaseLostError):
        raise
    except ContextEngineError as e:
        if len(many) == 1:
            return [], [(many[0], e)]
    done: list[tuple[T, R]] = []
    failed: list[tuple[T, ContextEngineError]] = []
    for one in many:
        worked, broken = together(work, [one])
        done += worked
        failed += broken
    return done, failed
