"""How the server on HTTP starts, and when it does not: addresses, certificates, tokens."""

import datetime
import os
import socket
import ssl
from pathlib import Path

import anyio
import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from shelltie.frontends.cli.main import main
from shelltie.frontends.mcp.http.address import parse
from shelltie.settings.paths import tokens_file
from tests.conformance.http_mcp import HttpClient, http_server


def certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = directory / "cert.pem", directory / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key_file.write_bytes(key.private_bytes(pem, form, plain))
    return cert_file, key_file


async def test_everybody_may_reach_it_when_it_is_encrypted(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "localhost")
    tls = ("--tls-cert", str(cert), "--tls-key", str(key))
    trust = ssl.create_default_context(cafile=str(cert))
    async with (
        http_server(tmp_path, *tls, "--allow-host", "box.example", at="0.0.0.0:0") as server,
        httpx2.AsyncClient(verify=trust, timeout=20, trust_env=False) as http,
    ):
        port = httpx2.URL(server.url).port
        client = HttpClient(http, f"https://localhost:{port}/mcp", server.token)
        said = await client.call("run", command="echo secret")
        message, headers = client.request("run", command="echo named")
        named = await client.post(message, headers | {"Host": f"box.example:{port}"})
        strange = await client.post(message, headers | {"Host": f"other.example:{port}"})

    assert said["stdout"] == "secret\n"
    assert (named.status_code, strange.status_code) == (200, 421)


async def test_the_server_says_how_a_client_is_added_but_not_its_token(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        said = (tmp_path / "stderr").read_text(encoding="utf-8").splitlines()
        line = said[1].replace("claude", "printf '%s\\n'", 1)
        words = await anyio.run_process(["bash", "-c", line])

    assert server.token not in "\n".join(said)
    assert words.stdout.decode().splitlines() == [
        *("mcp", "add", "--transport", "http", "shelltie", server.url),
        *("--header", f"Authorization: Bearer {server.token}"),
    ]


def test_it_does_not_start_where_it_should_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cert, key = certificate(tmp_path, "localhost")
    tokens = {name: tmp_path / name for name in ("open", "empty", "short", "directory", "fifo")}
    tokens["directory"].mkdir()
    os.mkfifo(tokens["fifo"])
    for name, content in (("open", "x" * 40), ("empty", "# none\n"), ("short", "hunter2\n")):
        tokens[name].write_text(content, encoding="ascii")
        tokens[name].chmod(0o644 if name == "open" else 0o600)
    here = "127.0.0.1:0"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cases: list[tuple[int, str, tuple[str, ...]]] = [
            (2, "--allow-plaintext", ("--http", "0.0.0.0:0")),
            (2, "other machines", ("--http", "[::]:0")),
            (2, "both", ("--http", here, "--tls-cert", str(cert))),
            (2, "--http", ("--tls-cert", str(cert), "--tls-key", str(key))),
            (2, "--http", ("--allow-plaintext",)),
            (125, "in use", ("--http", f"127.0.0.1:{port}")),
            (125, "cannot listen", ("--http", "no.such.name.invalid:80")),
            (
                125,
                "no certificate",
                ("--http", here, "--tls-cert", str(key), "--tls-key", str(key)),
            ),
            (125, "no certificate", ("--http", here, "--tls-cert", "/no", "--tls-key", "/no")),
            (125, "chmod 600", ("--http", here, "--token-file", str(tokens["open"]))),
            (125, "no token", ("--http", here, "--token-file", str(tokens["empty"]))),
            (125, "guessed", ("--http", here, "--token-file", str(tokens["short"]))),
            (125, "cannot be read", ("--http", here, "--token-file", str(tokens["directory"]))),
            (125, "not a regular file", ("--http", here, "--token-file", str(tokens["fifo"]))),
            (125, "no token can be kept", ("--http", here, "--token-file", "/proc/no/such")),
        ]
        for code, told, args in cases:
            ended = main(["mcp", *args])
            assert (ended, told in capsys.readouterr().err) == (code, True), args
    assert not tokens_file().exists()  # a server that does not start leaves no token behind


@pytest.mark.parametrize(
    "text",
    ["", ":", "8765", ":8765", "localhost", "a:b", "a:99999", "a b:1", "http://a:1", "::1:1"],
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse(text)


def test_addresses_are_understood() -> None:
    parsed = [parse(text) for text in ("127.0.0.1:0", "localhost:80", "[::1]:8765")]

    assert [(one.host, one.port) for one in parsed] == [
        ("127.0.0.1", 0),
        ("localhost", 80),
        ("::1", 8765),
    ]
