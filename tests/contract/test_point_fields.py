"""Each field of a point is classified, and a point that has others is not shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import qdrant_edge

from core.errors import InvariantError
from core.index.edge import EdgeIndex
from core.index.filters import EdgeDialect, of_items
from core.index.payload import FIELDS, access_payload, checked_payload, payload_of
from core.index.port import HybridQuery
from tests.contract.index_world import EVERYTHING, ONE_WORD, SIZE, point, trim, unit


def test_a_point_is_written_with_just_the_fields_that_are_classified() -> None:
    assert payload_of(point("ctx://a")).keys() == FIELDS.keys()
    assert access_payload(("a",), 1, "s").keys() <= {name for name, use in FIELDS.items() if use.startswith("access")}


@pytest.mark.parametrize("field", FIELDS)
def test_a_point_that_lacks_a_field_is_not_read(field: str) -> None:
    whole = payload_of(point("ctx://a"))
    assert checked_payload(whole) == whole
    with pytest.raises(InvariantError, match=field):
        checked_payload({name: value for name, value in whole.items() if name != field})


def test_a_point_with_a_field_that_nobody_classified_is_not_read() -> None:
    with pytest.raises(InvariantError, match="visible_to"):
        checked_payload({**payload_of(point("ctx://a")), "visible_to": ["everyone"]})
    with pytest.raises(InvariantError):
        checked_payload(None)


def test_a_search_shows_nothing_of_a_point_that_another_program_wrote_to(tmp_path: Path) -> None:
    index = EdgeIndex(tmp_path / "index", embedder="test", size=SIZE)
    try:
        index.writer.replace_item("ctx://a", [point("ctx://a")])
        query = HybridQuery(dense=unit(1), sparse=ONE_WORD, legs=EVERYTHING)
        assert [c.uri for c in index.reader.search(trim(["a"]), query)] == ["ctx://a"]
        more = qdrant_edge.UpdateOperation.set_payload_by_filter(
            of_items(EdgeDialect(), ["ctx://a"]), {"visible_to": ["everyone"]}
        )
        index.writer._update(more)
        with pytest.raises(InvariantError, match="visible_to"):
            index.reader.search(trim(["a"]), query)
    finally:
        index.close()
