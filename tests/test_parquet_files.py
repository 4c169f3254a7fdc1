"""Tables as files: the same bytes in however many pieces a column is, and nothing there twice."""

import pyarrow as pa
from tailback.files import parquet

ROWS = 300_000


def test_pieces_do_not_change_the_bytes_and_one_piece_is_not_copied() -> None:
    """One piece is taken as it is, a part of a longer one too."""
    whole = pa.table({"value": pa.array(range(ROWS), pa.float64())})
    spans = [range(1000), range(1000, 5000), range(5000, ROWS)]
    pieces = pa.concat_tables(pa.table({"value": pa.array(span, pa.float64())}) for span in spans)
    assert parquet._combined(whole).column(0).chunk(0).buffers()[1].address == (
        whole.column(0).chunk(0).buffers()[1].address
    )
    assert parquet._combined(pieces).column(0).num_chunks == 1
    assert parquet.as_parquet(pieces) == parquet.as_parquet(whole)
    two = pa.concat_tables([whole.slice(0, 1000), pa.concat_tables([pieces.slice(1000)]).combine_chunks()])
    assert two.column(0).num_chunks == 2
    assert parquet.as_parquet(two) == parquet.as_parquet(whole)
    # A part of a longer column is written as if it stood alone.
    assert parquet.as_parquet(whole.slice(1000, 5000)) == parquet.as_parquet(
        pa.table({"value": pa.array(range(1000, 6000), pa.float64())})
    )
