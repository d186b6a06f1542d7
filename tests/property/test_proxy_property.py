"""Whatever a client says to the proxy: an answer, a well-formed target, or nothing yet."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from shelltie.providers.proxy.request_body import RequestBody
from shelltie.providers.proxy.requests import HEAD_MAX, MalformedRequest, ProxyRequest
from shelltie.settings.network_list import AllowedHost, canonical_host, split_port

_HEADS = st.sampled_from(
    [
        *(b"CONNECT ", b"GET http://", b"POST http://a/", b"\x05", b"\x05\x01\x00", b"\x04\x01"),
        *(b"\x05\x01\x00\x05\x01\x00\x03", b"CONNECT a:443 HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n"),
    ]
)
_PARTS = st.sampled_from(
    [
        *(b" HTTP/1.1", b"\r\n", b"\r\n\r\n", b"\n", b":", b":443", b"@", b"[", b"]", b"%", b"\0"),
        *(b"example.org", b"127.0.0.1", b"Host: x", b"Connection: x", b"xn--", b"\xc3\xbc", b"/"),
        *(b"\x03\x0bexample.org\x01\xbb", b"\x01\x7f\x00\x00\x01\x00\x50", b" ", b"..", b"#", b"?"),
    ]
)
_WORDS = st.lists(_PARTS | st.binary(max_size=8), max_size=12).map(b"".join)


def heard(chunks: list[bytes]) -> tuple[str | None, bytes, bytes]:
    """Where a client that says this wants to go; what it is answered, and what it said after."""
    request, answers = ProxyRequest(), b""
    for chunk in chunks:
        if request.target is not None:
            request.rest += chunk
            continue
        try:
            answers += request.feed(chunk)
        except MalformedRequest as error:
            return None, answers + error.answer, b""
    return (None if request.target is None else str(request.target)), answers, request.rest


@given(_HEADS, _WORDS, st.binary(max_size=64))
@example(b"\x05", b"", b"")
@example(b"GET http://", b"a\x85b HTTP/1.1\r\n\r\n", b"")
def test_every_target_is_canonical_and_nothing_is_smuggled(
    head: bytes, words: bytes, tail: bytes
) -> None:
    request = ProxyRequest()

    try:
        request.feed(head + words + tail)
    except MalformedRequest:
        return
    assert len(request.rest) <= HEAD_MAX
    if request.target is not None:
        host, port = request.target.host, request.target.port
        assert canonical_host(host) == host
        assert 0 < port < 65536
        lines = request.target.first.split(b"\r\n")
        assert not any(b"\n" in line or b"\r" in line or b"\0" in line for line in lines)
        if request.target.first:
            names = [line.partition(b":")[0].lower() for line in lines[1:-2]]
            assert names.count(b"host") == names.count(b"connection") == 1
            assert request.target.first.endswith(b"\r\n\r\n")
            assert request.target.first.count(b"\r\n\r\n") == 1


@given(_HEADS, _WORDS, st.lists(st.integers(0, 40), max_size=6))
def test_how_it_arrives_makes_no_difference(head: bytes, words: bytes, cuts: list[int]) -> None:
    data = head + words
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in pairwise(places)]

    assert heard(pieces) == heard([data])


@given(
    st.lists(st.binary(min_size=1, max_size=20), max_size=4),
    st.binary(max_size=20),
    st.lists(st.integers(0, 120), max_size=6),
    st.booleans(),
)
def test_a_body_ends_where_it_says_however_it_arrives(
    parts: list[bytes], after: bytes, cuts: list[int], chunked: bool
) -> None:
    content = b"".join(parts)
    if chunked:
        body = RequestBody([("Transfer-Encoding", "chunked")])
        content = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    else:
        body = RequestBody([("Content-Length", str(len(content)))])
    data = content + after
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})

    admitted = b"".join(body.admit(data[start:end]) for start, end in pairwise(places))

    assert admitted == content
    assert body.ended


@given(st.binary(max_size=200))
def test_any_chunks_end_or_are_refused(data: bytes) -> None:
    body = RequestBody([("Transfer-Encoding", "chunked")])

    try:
        assert data.startswith(body.admit(data))
    except ValueError:
        return


@given(st.text(max_size=60))
def test_an_entry_means_a_host_or_is_refused(text: str) -> None:
    try:
        entry = AllowedHost.parse(text)
        host, _ = split_port(text)
    except ValueError:
        return
    assert entry.subdomains == host.startswith("*.")
    assert canonical_host(entry.host) == entry.host
    assert not entry.matches(f"evil-{entry.host}", entry.port or 443)
