"""Tables as files: the same bytes in however many pieces a column is, and nothing there twice."""

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
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


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def lying(content: bytes, true: int, lie: int, at: int) -> bytes:
    """The file with another number in the page header that begins there, as long as before: what follows moves, so
    that the bytes of the header's end are taken from the page, which is not read.
    """
    old, new = varint(true << 1), varint(lie << 1)
    begin = content.index(old, at)
    assert begin - at < 12
    return content[:begin] + new + content[begin + len(new) :]


TABLES = {
    "numbers": pa.table({"value": pa.array(range(2000), pa.int64())}),
    "texts": pa.table({"value": [f"text {number}" for number in range(2000)]}),
}
OTHERS = {
    "none": pa.table({"value": pa.array([], pa.string()), "other": pa.array([], pa.int64())}),
    "nulls": pa.table({"value": pa.array([None] * 2000, pa.string())}),
    "constant": pa.table({"value": ["same"] * 2000}),
}
MOST = (10_000, 10_000, 1 << 20)


def reads(content: bytes) -> None:
    parquet.read_parquet(content, *MOST)
    for table in parquet.parquet_groups(lambda: io.BytesIO(content), *MOST):
        assert table.num_columns


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("kind", [*TABLES, *OTHERS])
def test_files_of_other_writers_are_read(kind: str, dictionary: bool, codec: str, version: str) -> None:
    out = io.BytesIO()
    written = (TABLES | OTHERS)[kind]
    pq.write_table(
        written,
        out,
        compression=codec,
        use_dictionary=dictionary,
        data_page_version=version,
        data_page_size=500,
        row_group_size=700,
        write_page_index=True,
    )
    reads(out.getvalue())
    table = parquet.read_parquet(out.getvalue(), *MOST)
    assert table.column(0).to_pylist() == written.column(0).to_pylist()


@pytest.mark.parametrize("lie", [1 << 21, 1 << 28, (1 << 31) - 1])
@pytest.mark.parametrize("field", ["unpacked", "values"])
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("kind", TABLES)
def test_a_page_that_lies_about_its_size_takes_no_memory(
    kind: str, dictionary: bool, field: str, lie: int
) -> None:
    out = io.BytesIO()
    pq.write_table(TABLES[kind], out, compression="zstd", use_dictionary=dictionary)
    content = out.getvalue()
    header, _ = parquet._page_header(io.BytesIO(content), 4)
    of_page = header.get(parquet._DICTIONARY_PAGE) or header[parquet._DATA_PAGE]
    true = header[parquet._UNCOMPRESSED_PAGE_SIZE] if field == "unpacked" else of_page[1]
    at = 4 if field == "unpacked" else content.index(varint(true << 1), 4)
    bad = lying(content, true, lie, at)
    before = pa.total_allocated_bytes()
    for read in (
        lambda: parquet.read_parquet(bad, *MOST),
        lambda: list(parquet.parquet_groups(lambda: io.BytesIO(bad), *MOST)),
    ):
        with pytest.raises(ValueError, match=r"^found .*expected|damaged") as refused:
            read()
        assert "\n" not in str(refused.value)
    assert pa.default_memory_pool().max_memory() - before < 1 << 28


@pytest.mark.parametrize("seed", range(200))
def test_damaged_files_are_refused_in_a_line_or_read(seed: int) -> None:
    draw = random.Random(seed)
    out = io.BytesIO()
    pq.write_table(TABLES[draw.choice(list(TABLES))], out, use_dictionary=draw.random() < 0.5)
    content = bytearray(out.getvalue())
    for _ in range(draw.choice([1, 3, 10])):
        content[draw.randrange(4, 60)] = draw.randrange(256)
    said = "nothing is wrong"
    try:
        reads(bytes(content))
    except ValueError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) > 10
