from hypothesis import given
from hypothesis import strategies as st

from shelltie.output.char_index import Characters
from shelltie.output.text import decode

CHUNKS = st.lists(st.binary(max_size=40) | st.text(max_size=20).map(str.encode), max_size=20)


@given(CHUNKS, st.data())
def test_any_position_can_be_found_again_among_any_bytes(
    chunks: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(chunks)
    characters = Characters()
    for chunk in chunks:
        characters.add(chunk)
    characters.finish()
    text = decode(whole)
    position = data.draw(st.integers(0, len(text)))

    byte, number = characters.near(position)

    assert characters.total == len(text)
    assert decode(whole[byte:])[position - number :] == text[position:]


def test_a_reader_far_behind_decodes_little_in_vain() -> None:
    characters = Characters()
    line = "größer als gedacht\n".encode()
    for _ in range(20_000):
        characters.add(line)

    byte, number = characters.near(300_000)

    assert 0 <= 300_000 - number <= 64 * 1024 + len(line)
    assert decode((line * 20_000)[byte:])[:5] == decode(line * 20_000)[number : number + 5]
