"""What clients say to the proxy of a sandbox, and which addresses no name may lead to."""

import pytest

from shelltie.providers.proxy.addresses import is_home, is_public
from shelltie.providers.proxy.connection import why_refused
from shelltie.providers.proxy.requests import HEAD_MAX, MalformedRequest, ProxyRequest
from shelltie.settings.network_list import AllowedHost

_LENGTHS = (  # that two readers may understand differently
    b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
    b"Content-Length: 3\r\ncontent-length: 3\r\n",
    b"Content-Length: 3, 3\r\n",
    b"Content-Length: +3\r\n",
    b"Content-Length:\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Content-Length: 3\r\nConnection: close, content-length\r\n",
)


def said(data: bytes) -> ProxyRequest:
    request = ProxyRequest()
    request.feed(data)
    return request


def test_connect_names_a_host_and_a_port() -> None:
    request = said(b"CONNECT Example.org.:443 HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03\x01")

    assert str(request.target) == "example.org:443"
    assert request.rest == b"\x16\x03\x01"
    assert request.target is not None
    assert request.target.accepted.startswith(b"HTTP/1.1 200 ")
    assert request.target.failure("refused", "no").startswith(b"HTTP/1.1 403 ")


def test_plain_http_is_rewritten_for_the_host_that_was_asked_about() -> None:
    request = said(
        b"GET http://example.org:8080/a?b=c#d HTTP/1.1\r\nHost: other.example\r\nX: y\r\n"
        b"Proxy-Authorization: Basic c2VjcmV0\r\nConnection: keep-alive, X-Hop\r\n"
        b"X-Hop: 1\r\n\r\nbody"
    )

    assert request.target is not None
    assert str(request.target) == "example.org:8080"
    assert request.target.first == (
        b"GET /a?b=c HTTP/1.1\r\nHost: example.org:8080\r\nConnection: close\r\nX: y\r\n\r\n"
    )
    assert (request.target.accepted, request.rest) == (b"", b"body")
    plain = said(b"GET http://Example.org HTTP/1.0\r\n\r\n").target
    assert plain is not None
    assert plain.first.startswith(b"GET / HTTP/1.0\r\nHost: example.org\r\n")


def test_what_follows_a_request_does_not_belong_to_it() -> None:
    none = said(b"GET http://a/ HTTP/1.1\r\n\r\n").body
    three = said(b"PUT http://a/ HTTP/1.1\r\nContent-Length: 3\r\n\r\n").body
    chunks = said(b"PUT http://a/ HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n").body

    assert none is not None
    assert (none.admit(b"GET http://evil/"), none.ended) == (b"", True)
    assert three is not None
    assert (three.admit(b"ab"), three.ended, three.admit(b"cGET"), three.ended) == (
        *(b"ab", False),
        *(b"c", True),
    )
    assert chunks is not None
    assert (
        chunks.admit(b"3;x=y\r\nabc\r\n0\r\nX: y\r\n\r\nGET")
        == b"3;x=y\r\nabc\r\n0\r\nX: y\r\n\r\n"
    )
    assert said(b"CONNECT a:443 HTTP/1.1\r\n\r\n").body is None


@pytest.mark.parametrize("body", [b"x\r\n", b"3\nabc", b"3\r\nabcd\r\n", b"0\r\nno trailer\r\n"])
def test_a_body_that_is_none_goes_no_further(body: bytes) -> None:
    request = said(b"PUT http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")

    assert request.body is not None
    with pytest.raises(ValueError, match=r"chunk|line|header"):
        request.body.admit(body)


@pytest.mark.parametrize(
    ("address", "target"),
    [
        (b"\x03\x0bexample.org", "example.org:443"),
        (b"\x01\x7f\x00\x00\x01", "127.0.0.1:443"),
        (b"\x04" + bytes(15) + b"\x01", "[::1]:443"),
    ],
)
def test_socks_takes_names_and_addresses(address: bytes, target: str) -> None:
    request = ProxyRequest()

    assert request.feed(b"\x05\x02\x00\x02") == b"\x05\x00"
    assert request.feed(b"\x05\x01\x00" + address + b"\x01\xbbrest") == b""
    assert str(request.target) == target
    assert request.rest == b"rest"
    assert request.target is not None
    assert request.target.failure("refused", "no") == b"\x05\x02\x00\x01" + bytes(6)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET https://example.org/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET ftp://example.org/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET http://u:p@example.org/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET http://[::1/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET http://unix%2fsocket/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
        (b"CONNECT example.org HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
        (b"CONNECT example.org:0 HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
        (b"CONNECT /run/docker.sock:80 HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
        (b"CONNECT a:1 HTTP/2.0\r\n\r\n", b"HTTP/1.1 400 "),
        (b"CONNECT a:1 HTTP/1.1\r\nno header\r\n\r\n", b"HTTP/1.1 400 "),
        (b"CONNECT a:1 HTTP/1.1\r\nX: a\nY: b\r\n\r\n", b"HTTP/1.1 400 "),
        (b"\xff\xfe\r\n\r\n", b"HTTP/1.1 400 "),
        # At once, and not when the client gives up: no end of the head will ever come.
        (b"GET http://a/ HTTP/1.1\n", b"HTTP/1.1 400 "),
        (b"GET http://a/ HTTP/1.1\r\nX: a\rY", b"HTTP/1.1 400 "),
        (b"\x04\x01\x00\x50", b"\0\x5b"),
        *((b"POST http://a/ HTTP/1.1\r\n" + it + b"\r\n", b"HTTP/1.1 400 ") for it in _LENGTHS),
        (b"POST http://a/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 400 "),
        (b"A" * (HEAD_MAX + 1), b"HTTP/1.1 431 "),
        (b"\x05\x01\x02", b"\x05\xff"),
        (b"\x05\x01\x00\x05\x02\x00\x01\x01\x01\x01\x01\x00\x50", b"\x05\x00\x05\x07"),
        (b"\x05\x01\x00\x05\x01\x00\x09\x01\x01\x01\x01\x00\x50", b"\x05\x00\x05\x08"),
        (b"\x05\x01\x00\x04\x01\x00\x01\x01\x01\x01\x01\x00\x50", b"\x05\x00\x05\x01"),
        (b"\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50", b"\x05\x00\x05\x01"),
    ],
)
def test_what_is_no_request_is_answered_and_goes_nowhere(data: bytes, answer: bytes) -> None:
    with pytest.raises(MalformedRequest) as refused:
        said(data)

    assert refused.value.answer.startswith(answer)


_NEVER = (
    *("127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "10.1.2.3", "172.16.0.1", "172.31.255.255"),
    *("192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.192", "198.18.0.1", "224.0.0.1"),
    *("255.255.255.255", "240.0.0.1", "192.0.2.1", "168.63.129.16"),
    *("::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "2002:7f00::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2001::1"),
)


def test_no_name_leads_to_a_private_address() -> None:
    named = AllowedHost.parse("example.org")

    for address in _NEVER:
        assert not is_public(address), address
        assert why_refused(named, ("1.1.1.1", address)) is not None, address
    for address in ("1.1.1.1", "8.8.8.8", "2606:4700::1111", "::ffff:1.1.1.1"):
        assert is_public(address), address
        assert why_refused(named, (address,)) is None, address


def test_a_named_service_may_be_at_home_but_never_a_clouds_metadata() -> None:
    mirror, literal = AllowedHost.parse("mirror.lan:8080"), AllowedHost.parse("169.254.169.254")

    own = ("198.18.0.1", "192.0.2.1", "203.0.113.9")  # where a user's own proxy or mirror answers
    at_home = ("127.0.0.1", "::1", "10.1.2.3", "192.168.1.1", "::ffff:10.0.0.1", "1.1.1.1")
    for address in (*at_home, *own):
        assert why_refused(mirror, (address,)) is None, address
    for address in ("169.254.169.254", "0.0.0.0", "fe80::1", "224.0.0.1", "::"):
        assert not is_home(address)
        assert why_refused(mirror, (address,)) is not None, address
    assert why_refused(literal, ("169.254.169.254",)) is None  # the user's own word
