import base64
import json
from urllib.parse import quote, quote_plus

import pytest

from shelltie.output.redact import Redactor

TOKEN = "ghp_" + "a1B2" * 9
LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{LINE}\n{LINE}\nshort+end==\n-----END RSA PRIVATE KEY-----"
CANARY = "s3cr3t/canary+value&more"
plain = Redactor()
knowing = Redactor({"MY_TOKEN": CANARY})


@pytest.mark.parametrize(
    "said",
    [
        CANARY,
        quote(CANARY, safe=""),
        quote(CANARY),
        quote_plus(CANARY),
        quote(CANARY, safe="").lower(),
        json.dumps(CANARY)[1:-1],
        base64.b64encode(CANARY.encode()).decode(),
        base64.urlsafe_b64encode(CANARY.encode()).decode(),
        base64.b64encode(f"user:{CANARY}".encode()).decode(),
        base64.b64encode(f"me:{CANARY}\n".encode()).decode(),
        base64.b64encode(f"{CANARY}\n".encode()).decode(),
        base64.b64encode(f"x{CANARY}yz".encode()).decode(),
    ],
)
def test_a_known_value_is_hidden_however_it_is_spelled(said: str) -> None:
    shown = knowing.text(f"before {said} after")

    assert "[REDACTED:MY_TOKEN]" in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    assert not any(said[i : i + 9] in shown for i in range(len(said) - 8))


def test_two_values_next_to_and_inside_one_another_are_hidden_whole() -> None:
    redactor = Redactor(
        {"A": "alpha-secret", "B": "secret-beta-1", "C": "alpha-secret-beta-1-more"}
    )

    assert redactor.text("alpha-secret-beta-1!") == "[REDACTED:A]!"
    assert redactor.text("alpha-secret-beta-1-more!") == "[REDACTED:C]!"
    assert redactor.text("alpha-secretsecret-beta-1") == "[REDACTED:A][REDACTED:B]"


def test_the_password_in_a_known_address_is_hidden_alone_too() -> None:
    redactor = Redactor({"DATABASE_URL": "postgres://app:tr0ub4dor&3@db/main"})

    assert (
        redactor.text("login with tr0ub4dor&3 failed")
        == "login with [REDACTED:DATABASE_URL] failed"
    )
    assert redactor.text("at postgres://app:tr0ub4dor&3@db/main") == "at [REDACTED:DATABASE_URL]"


@pytest.mark.parametrize(
    "value", ["", "short77", "password", "localhost", "********", "00000000", " \n "]
)
def test_a_value_that_occurs_by_chance_is_not_looked_for(value: str) -> None:
    text = f"see: {value} and password, localhost ******** 00000000 short77"

    assert Redactor({"A_KEY": value}).text(text) == text


def test_a_long_value_is_hidden_whole_and_in_part() -> None:
    value = "".join(f"{number:04d}-part\n" for number in range(900))
    redactor = Redactor({"BUNDLE": value})

    assert redactor.text(value.strip()).replace("[REDACTED:BUNDLE]", "") == ""
    assert "0500-part" not in redactor.text(value[3000:6000])
    encoded = base64.encodebytes(value.encode()).decode()
    assert len(redactor.text(encoded)) < 100


def test_a_value_that_is_no_text_is_hidden_too() -> None:
    value = "caf\udce9-passwort-\U0001f511"

    assert Redactor({"K": value}).text(f"<{value}>") == "<[REDACTED:K]>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"token {TOKEN}", "token [REDACTED:github_token]"),
        (f"\\n{TOKEN}\\n", "\\n[REDACTED:github_token]\\n"),
        (f"x={TOKEN}{TOKEN}.", "x=[REDACTED:github_token]."),
        (f"https://{TOKEN}@github.com/a/b", "https://[REDACTED:github_token]@github.com/a/b"),
        ("AKIAIOSFODNN7EXAMPLE,", "[REDACTED:aws_access_key],"),
        ("sk-ant-api03-" + "a" * 93 + "AA", "[REDACTED:anthropic_key]"),
        ("sk-proj-" + "Ab1_" * 300 + " .", "[REDACTED:openai_key] ."),
        ("xoxb-1234567890-abcdefgh", "[REDACTED:slack_token]"),
        ("AGE-SECRET-KEY-1" + "Q" * 58, "[REDACTED:age_key]"),
        ("x1234567890abc.atlasv1." + "z" * 67, "x1234567890abc[REDACTED:terraform_token]"),
        ("SG." + "a" * 22 + "." + "b" * 43, "[REDACTED:sendgrid_key]"),
        ("dop_v1_" + "0f" * 32, "[REDACTED:digitalocean_token]"),
        ("hvs." + "CAESI" * 20, "[REDACTED:vault_token]"),
        ("pypi-AgEIcHlwaS5vcmc" + "a-_" * 30, "[REDACTED:pypi_token]"),
        ("ya29.a0AfH6SMBx" + "y" * 80, "[REDACTED:google_token]"),
        ("GOCSPX-" + "a" * 28, "[REDACTED:google_secret]"),
        ("dapi" + "0123456789abcdef" * 2, "[REDACTED:databricks_token]"),
        (
            "https://hooks.slack.com/services/T00000000/B00000000/" + "X" * 24,
            "https://hooks.slack.com/services/[REDACTED:webhook]",
        ),
        ("AccountKey=" + "Ab1+" * 21 + "Ab==;x", "AccountKey=[REDACTED:azure_key];x"),
        (
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN end",
            "[REDACTED:jwt] end",
        ),
        ("Authorization: Basic dXNlcjpwYXNzd29y", "Authorization: Basic [REDACTED:authorization]"),
        (
            '"authorization": "token abcdefghijklmnop"',
            '"authorization": "token [REDACTED:authorization]"',
        ),
        ("Bearer abcdefghij0123456789+/=", "Bearer [REDACTED:bearer]"),
        ("postgres://app:p4ss@db/x", "postgres://app:[REDACTED:url_password]@db/x"),
        ("redis://:p@ss:w@cache", "redis://:[REDACTED:url_password]@cache"),
    ],
)
def test_a_secret_is_known_by_its_shape(text: str, shown: str) -> None:
    assert plain.text(text) == shown


@pytest.mark.parametrize(
    "key",
    [
        KEY,
        KEY.replace("\n", "\r\n"),
        KEY.replace("\n", "\\n"),
        KEY.replace("\n", "\n    "),
        "\n".join(f"{n:6d}\t{line}" for n, line in enumerate(KEY.split("\n"), 1)),
        "\n".join(f"+{line}" for line in KEY.split("\n")),
        "\n".join(f"secrets.py:{n}:{line}" for n, line in enumerate(KEY.split("\n"), 1)),
        KEY.replace("RSA ", ""),
        KEY.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"),
    ],
)
def test_a_private_key_is_hidden_however_it_is_printed(key: str) -> None:
    shown = plain.text(f"before\n{key}\nafter\n")

    assert "MII" not in shown
    assert "short+end" not in shown
    assert shown.startswith("before\n")
    assert shown.endswith("[REDACTED:private_key]\nafter\n")


@pytest.mark.parametrize(
    "cut",
    [
        KEY[: len(KEY) - 20],
        KEY[:120],
        "\n".join(KEY.split("\n")[:3]),
        "-----BEGIN PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,01234567\n\n"
        f"{LINE}\n{LINE}",
        f"-----BEGIN PRIVATE KEY-----{LINE * 50}",
        "-----BEGIN PRIVATE KEY-----\n" + f"{LINE}\n" * 900,
    ],
)
def test_a_private_key_without_an_end_hides_what_follows_as_far_as_it_looks_like_one(
    cut: str,
) -> None:
    shown = plain.text(f"{cut}\ntotal 12\n-rw-r--r-- 1 me me 5 a.txt\n")

    assert "MII" not in shown
    assert LINE[8:30] not in shown
    assert shown.endswith("\ntotal 12\n-rw-r--r-- 1 me me 5 a.txt\n")


def test_two_private_keys_hide_only_themselves() -> None:
    assert plain.text(f"{KEY}\nbetween\n{KEY}\n") == (
        "[REDACTED:private_key]\nbetween\n[REDACTED:private_key]\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "3367669a6d961a7a0343ae761a3d025fde8aaaaa errors: say no, and to what",
        "550e8400-e29b-41d4-a716-446655440000",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "sha512-" + "Ab1+" * 21 + "Ab==",
        "origin\tgit@github.com:owner/repository.git (fetch)",
        "ssh://git@github.com:22/owner/repository.git",
        "root  1  0.0  0.1 167744 11520 ?  Ss  Nov15  0:01 /sbin/init",
        "const token = getToken();\npassword: process.env.PASSWORD,",
        'headers["Authorization"] = self.authorization_header()',
        "authorization=settings.AUTHORIZATION_HEADER_NAME",
        'if "-----BEGIN RSA PRIVATE KEY-----" in text: raise',
        "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----",
        "postgres://user:$PASSWORD@host postgres://user:<password>@host https://u:***@h",
        "http://localhost:8080/@scope/pkg http://a.b:80 me@c.d",
        "task-0123456789abcdef0123456789 disk-0123456789abcdef0123456789",
        "sk-learn-tutorials-for-beginners-and-others hf_hub_download npm_config_registry",
        "import gsk_ghp_gho_ # ghp_short glpat-short AKIASHORT",
        "eyJhbGciOiJIUzI1NiJ9 alone is no token",
        "Bearer of bad-news-which-is-long-and-wordy",
        "[REDACTED:github_token] https://u:[REDACTED:url_password]@h",
        "",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert plain.text(text) == text


def test_the_stream_gives_back_all_but_the_last_few_thousand_characters() -> None:
    stream = plain.stream()
    given = 0
    for _ in range(100):
        given += len(stream.feed("ordinary text\n" * 100))
    held = 100 * 1400 - given

    assert held <= 3 * 4096
    assert len(stream.finish()) == held


def test_a_private_key_that_never_ends_is_not_waited_for_for_ever() -> None:
    stream = plain.stream()
    fed = shown = 0
    for _ in range(50):
        fed += 2000
        shown += len(stream.feed("-----BEGIN PRIVATE KEY-----\n".ljust(2000, "?")))

    assert fed - shown <= 16 * 1024 + 3 * 4096


def test_a_secret_longer_than_anything_we_hold_is_swallowed_as_it_comes() -> None:
    stream = plain.stream()
    shown = stream.feed(TOKEN)
    for _ in range(100):
        shown += stream.feed("a" * 1000)

    assert shown + stream.finish(" end") == "[REDACTED:github_token] end"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("export API_KEY=abcdef123", "export API_KEY=[REDACTED:assigned]"),
        (
            '{"password": "hunter22", "user": "me"}',
            '{"password": "[REDACTED:assigned]", "user": "me"}',
        ),
        ("login --password hunter22 --verbose", "login --password [REDACTED:assigned] --verbose"),
        ("tool --api-token=abcd1234 x", "tool --api-token=[REDACTED:assigned] x"),
        ("curl -u me:hunter22 https://x.y", "curl -u me:[REDACTED:assigned] https://x.y"),
        ("curl -sSume:hunter22 https://x.y", "curl -sSume:[REDACTED:assigned] https://x.y"),
        ("curl -X PUT -u 'me:hunter22' x", "curl -X PUT -u 'me:[REDACTED:assigned]' x"),
        ("mysql -u root:hunter22 db", "mysql -u root:[REDACTED:assigned] db"),
        ("frob --user me:hunter22 x", "frob --user me:[REDACTED:assigned] x"),
        ("client_secret: 'abcdef'", "client_secret: '[REDACTED:assigned]'"),
        ("mysql -u root -phunter2 db", "mysql -u root -p[REDACTED:assigned] db"),
        ("sshpass -p X ssh host", "sshpass -p [REDACTED:assigned] ssh host"),
        ("docker login -u me -p 'a b' reg.io", "docker login -u me -p [REDACTED:assigned] reg.io"),
        ("ADMIN_PW=hunter2 true", "ADMIN_PW=[REDACTED:assigned] true"),
        ("DBPASS=hunter2222 x", "DBPASS=[REDACTED:assigned] x"),
        ("OPENAIKEY=hunter22222 x", "OPENAIKEY=[REDACTED:assigned] x"),
        ("STRIPE_SK=abc x", "STRIPE_SK=[REDACTED:assigned] x"),
        ("env:MY_AUTH=hunter22", "env:MY_AUTH=[REDACTED:assigned]"),
        ("WEBHOOK_URL=https://x.y/z", "WEBHOOK_URL=[REDACTED:assigned]"),
        ("mvn -Ddb.password=hunter22 x", "mvn -Ddb.password=[REDACTED:assigned] x"),
        ("echo password: hunter22", "echo password: [REDACTED:assigned]"),
        ("redis-cli -h x -a hunter22 PING", "redis-cli -h x -a [REDACTED:assigned] PING"),
        ("ldapsearch -x -w hunter22 -b o", "ldapsearch -x -w [REDACTED:assigned] -b o"),
        ("openssl rsa -passin pass:hunter22", "openssl rsa -passin pass:[REDACTED:assigned]"),
        ("7z a -phunter22 x.7z d", "7z a -p[REDACTED:assigned] x.7z d"),
        ("zip -r -P hunter22 x.zip d", "zip -r -P [REDACTED:assigned] x.zip d"),
        ("mongosh -u me -p hunter22 db", "mongosh -u me -p [REDACTED:assigned] db"),
        ("smbclient //h/s -U me%hunter22", "smbclient //h/s -U me%[REDACTED:assigned]"),
        ("docker run x curl --user me:hunter22", "docker run x curl --user me:[REDACTED:assigned]"),
    ],
)
def test_a_record_also_hides_what_is_given_to_a_name(text: str, shown: str) -> None:
    assert plain.text(text) == text
    assert plain.audit(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "cat secret file.txt | grep token README.md",
        "deploy --token-file /run/token --secret-name=db",
        "curl -H $TOKEN; x --password $PASSWORD --token ${T} --secret $(pass x)",
        "docker run -u 1000:1000 -p 8080:80 image",
        "date -u +%Y-%m-%dT%H:%M:%SZ",
        "curl x.y | tee log; date -u +%H:%M:%S; sort -u a:bcdef; chown -R me:staff x",
        "mysqldump -p shop; mkdir -p /srv/x; mysql -p$PW -P 3306",
        "rm -rf password && echo done > token",
        "llm --max-tokens 4096 --tokenizer gpt2 --key-size 4096 --no-auth server",
        "docker run --user node:nodegroup image; podman exec --user=app:staff c ls",
        "grep password: file.txt; rg -i api_key: src",
        "sort --key=2,2n; echo 'pass: 1234' pass=1234 key=abcd AUTH_TYPE=basic PASS=0",
        "openssl rsa -passin env:X; 7z x -p; mongosh -p --host h; zip -r x.zip d",
        "PRIVATE_KEY=./keys/id.pem x --ssl-key /etc/x.pem DATABASE_URL=postgres://h/d",
    ],
)
def test_a_record_keeps_operators_paths_and_references(text: str) -> None:
    assert plain.audit(text) == text


def test_a_record_of_a_record_is_the_same() -> None:
    once = knowing.audit(
        f"{KEY} {TOKEN} password=abcd1234 {CANARY} Authorization: Bearer abcdefghij0123456789"
    )

    assert knowing.audit(once) == once


def test_a_piece_shows_no_half_of_a_secret() -> None:
    redactor = Redactor({"KEY": "0123456789abcdef"})
    text = "a 0123456789abcdef b ghp_" + "aB3" * 12 + " c 0123456789"

    every = [redactor.pieces(text, [(start, start + 12)])[0] for start in range(2, 18)]
    (whole, going_on) = (
        redactor.pieces(text, [(0, len(text))], goes_on=on)[0] for on in (False, True)
    )

    assert all(piece.startswith("[REDACTED:KEY]") for piece in every)
    assert not any(digit in "".join(every) for digit in "01234567")
    assert whole == redactor.text(text)
    assert going_on == whole.replace("0123456789", "[REDACTED:KEY]")
    assert redactor.pieces(text, [(0, 2), (18, 21)]) == ["a ", " b "]
    assert redactor.pieces("x 0123456", [(0, 9)], goes_on=True) == ["x 0123456"]


def test_secrets_that_overlap_are_one_mark_in_a_piece() -> None:
    redactor = Redactor({"ONE": "0123456789", "TWO": "56789abcde"})
    text = "-0123456789abcde-"

    assert redactor.pieces(text, [(0, 17), (3, 17), (12, 17)]) == [
        "-[REDACTED:ONE]-",
        "[REDACTED:ONE]-",
        "[REDACTED:TWO]-",
    ]
