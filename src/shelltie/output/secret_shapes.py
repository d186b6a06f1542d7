"""Secret patterns (API keys, tokens, private keys), and encodings of a secret value. Pure."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy

HEAD_MAX = 4096  # no head below looks farther than this
TAIL_MAX = 512  # nor does a tail, each time it is tried

_TOKEN = lazy(r"(?:\.?[\w-]){1,250}", re.ASCII)
_BASE64 = lazy(r"[\w.~+/=-]{1,500}", re.ASCII)
_BEGINNING = lazy(r"(?:[\w/:=-]|\\\.)+(?![{?*])", re.ASCII)  # characters that stand for themselves


@frozen
class Shape:
    """A secret begins where `head` matches.

    The group `secret` of the head is what must not be seen, or all of it where there is none.
    `tail` is tried again and again after it: a secret may be longer than any head.
    """

    kind: str
    head: re.Pattern[str]
    tail: re.Pattern[str] | None = _TOKEN
    literal: str = ""  # the head begins with it; without it, the pattern need not be compiled

    def regions(self, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        """What to hide, without tails, of the heads that begin between two places."""
        if text.find(self.literal, start) < 0:
            return
        match = self.head.search(text, start)
        while match is not None and match.start() < end:
            yield match.span("secret") if "secret" in self.head.groupindex else match.span()
            match = self.head.search(text, match.start() + 1)


def _shape(kind: str, head: str, tail: re.Pattern[str] | None = _TOKEN) -> Shape:
    begin = _BEGINNING.match(head)
    literal = begin[0].replace("\\", "") if begin else ""
    return Shape(kind, lazy(head, re.ASCII), tail, literal)


# Heads begin with a literal, which `re` finds a gigabyte of text a second for. What must not stand
# before it is therefore looked at behind it.
_SCHEME = r"(?:[Bb]earer|[Bb]asic|[Tt]oken|[Dd]igest|[Nn]egotiate|[Aa]pi[Kk]ey)"
_NO_DIGIT = r"[A-Za-z_.~+/=-]"

SHAPES = (
    _shape(
        "aws_access_key",
        r"A(?:KI|SI|BI|CC)A(?<![A-Za-z0-9].{4})[A-Z2-7]{16}(?![A-Za-z0-9])",
    ),
    _shape("github_token", r"gh[pousr]_[0-9A-Za-z]{36}"),
    _shape("github_token", r"github_pat_\w{22}"),
    _shape("gitlab_token", r"gl(?:pat|dt|rt|ptt|cbt|ft|imt|agent|soat|oas|ffct)-[\w-]{20}"),
    _shape("anthropic_key", r"sk-ant-[\w-]{20}"),
    _shape(
        "openai_key",
        r"sk-(?<![A-Za-z0-9]sk-)"
        r"(?:(?:proj|svcacct|admin|or-v1)-[\w-]{20}|(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{20})",
    ),
    _shape("google_key", r"AIza(?<![A-Za-z0-9]AIza)[\w-]{35}"),
    _shape("google_secret", r"GOCSPX-[\w-]{20}"),
    _shape("google_token", r"ya29\.[\w-]{20}"),
    _shape("slack_token", r"xox[abeoprs]-[\w-]{10}"),
    _shape("slack_token", r"xapp-\d-[\w-]{10}"),
    _shape(
        "webhook",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w/-]{20})",
        _BASE64,
    ),
    _shape("webhook", r"/api/webhooks/\d{5,25}/(?P<secret>[\w-]{40})"),
    _shape("stripe_key", r"sk_(?:live|test|prod)_[0-9A-Za-z]{10}"),
    _shape("stripe_key", r"rk_(?:live|test|prod)_[0-9A-Za-z]{10}"),
    _shape("stripe_key", r"whsec_[0-9A-Za-z+/]{24}"),
    _shape("npm_token", r"npm_(?<![A-Za-z0-9]npm_)[A-Za-z0-9]{36}"),
    _shape("pypi_token", r"pypi-AgE[\w-]{40}"),
    _shape("rubygems_key", r"rubygems_[a-f0-9]{48}"),
    _shape("hugging_face_token", r"hf_(?<![A-Za-z0-9]hf_)[A-Za-z0-9]{34}"),
    _shape("groq_key", r"gsk_(?<![A-Za-z0-9]gsk_)[A-Za-z0-9]{40}"),
    _shape("sendgrid_key", r"SG\.(?<![A-Za-z0-9]SG\.)[\w-]{16,32}\.[\w-]{16}"),
    _shape("digitalocean_token", r"do[por]_v1_[a-f0-9]{64}"),
    _shape("databricks_token", r"dapi(?<![A-Za-z0-9]dapi)[a-f0-9]{32}"),
    _shape("vault_token", r"hv[sb]\.(?<![A-Za-z0-9]hv.\.)[\w-]{24}"),
    _shape("terraform_token", r"\.atlasv1\.(?<=[A-Za-z0-9]{14}\.atlasv1\.)[\w-]{40}"),
    _shape("shopify_token", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _shape("age_key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _shape("azure_key", r"AccountKey=(?P<secret>[A-Za-z0-9+/]{40})", _BASE64),
    _shape("azure_key", r"AccessKey=(?P<secret>[A-Za-z0-9+/]{40})", _BASE64),
    _shape("jwt", r"eyJ(?:(?<![\w-]eyJ)|(?<=\\[nrt]eyJ))[\w-]{8,2000}\.eyJ[\w-]{8}"),
    _shape(
        "authorization",
        rf"uthorization[\"']?\s{{0,4}}(?:[:=]\s{{0,4}}[\"']?{_SCHEME}\s{{1,4}}"
        rf"|:\s{{0,4}}[\"']?(?={_NO_DIGIT}{{0,40}}\d))(?P<secret>[\w.~+/=-]{{16}})",
        _BASE64,
    ),
    _shape(
        "bearer",
        rf"earer {{1,4}}(?P<secret>(?={_NO_DIGIT}{{0,200}}\d)[\w.~+/=-]{{20}})",
        _BASE64,
    ),
    _shape(
        "url_password",
        r"://[^\s/:@\"'<>\\]{0,256}+:(?![$<{*%]|\[REDACTED:|\.\.\.)"
        r"(?P<secret>[^\s/\"'<>\\]{1,1024})(?=@[^\s/@\"'])",
        None,
    ),
)

KEY_MAX = 16 * 1024  # how far the end of a private key may be from its beginning
KEY_BEGIN = lazy(r"-----BEGIN [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)?-----")
KEY_END = lazy(r"-----END [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)?-----")
KEY_BODY = lazy(r"[A-Za-z0-9+/=]{32}")
# What follows, line by line, where the end is missing. Lines may be numbered, quoted or escaped.
KEY_LINE = lazy(
    r"(?:\r?\n|(?:\\r)?\\n)[ \t]{0,16}(?:\d{1,6}[:|\t])?[ \t>+|\"']{0,4}"
    r"(?:[A-Za-z0-9+/=]{40,200}"
    r"|(?=[A-Za-z+/=]{0,39}\d)[A-Za-z0-9+/=]{8,39}(?![^\s\\\"'])"
    r"|(?:Proc-Type|DEK-Info|Version|Comment): [^\r\n]{0,99}"
    r"|(?=[\r\n\\]))"
    r"|[A-Za-z0-9+/=]{1,200}"
)


def kind_of(text: str) -> str | None:
    """The kind of the first secret of a known shape in a text, if there is one."""
    if "-----BEGIN " in text and KEY_BEGIN.search(text):
        return "private_key"
    likely = (s for s in SHAPES if s.literal in text)
    return next((s.kind for s in likely if any(s.regions(text, 0, len(text)))), None)


_LEAST = 8  # a shorter value occurs by chance
_PIECE = 150  # characters of a long value; spelled out in any way they stay shorter than a head
_ENCODED = 48  # bytes: one line of base64
_LEAST_DIFFERENT = 4  # characters: no secret is a row of stars
# As values of passwords these are examples, and as words they are everywhere.
_COMMON = frozenset(
    {"password", "changeme", "localhost", "username", "postgres", "postgresql", "production"}
    | {"development", "disabled", "undefined", "required", "anonymous", "external", "internal"}
)
_PASSWORD_IN_URL = lazy(r"://[^\s/:@]*:([^\s/]+)@")
_PERCENT = lazy(r"%[0-9A-F]{2}")
_BASE64_RUN = lazy(r"[\w+/=-]{1,400}|\r?\n[\w+/=-]{40,200}", re.ASCII)


@frozen
class Spelling:
    """Where `text` stands, the secret `name` is printed, and goes on as far as `tail` matches."""

    text: str
    name: str
    tail: re.Pattern[str] | None = None


def spellings(values: Mapping[str, str]) -> tuple[Spelling, ...]:
    """Of all values by their names, the longest first."""
    found: dict[str, Spelling] = {}
    for name, value in values.items():
        for secret in _secrets(value):
            for text, tail in _spelled(secret):
                found.setdefault(text, Spelling(text, name, tail))
    return tuple(sorted(found.values(), key=lambda one: (-len(one.text), one.text)))


def _secrets(value: str) -> Iterator[str]:
    """What must not be seen of a value: all of it, and the password in an address."""
    password = _PASSWORD_IN_URL.search(value)
    for secret in (value.strip(), password[1] if password else ""):
        different = len(set(secret)) >= _LEAST_DIFFERENT
        if len(secret) >= _LEAST and different and secret.lower() not in _COMMON:
            yield secret


def _spelled(secret: str) -> Iterator[tuple[str, re.Pattern[str] | None]]:
    pieces = max(1, len(secret) // _PIECE)
    for place in range(pieces):
        end = None if place == pieces - 1 else (place + 1) * _PIECE
        for text in _escaped(secret[place * _PIECE : end]):
            yield text, None
    data = secret.encode("utf-8", "surrogateescape")
    for text in _encoded(data[:_ENCODED]):
        yield text, _BASE64_RUN


def _escaped(piece: str) -> Iterator[str]:
    yield piece
    yield json.dumps(piece)[1:-1]
    yield json.dumps(piece, ensure_ascii=False)[1:-1]
    for escaped in (
        quote(piece, safe="", errors="surrogateescape"),
        quote(piece, errors="surrogateescape"),
        quote_plus(piece, errors="surrogateescape"),
    ):
        yield escaped
        yield _PERCENT.sub(lambda match: match[0].lower(), escaped)


def _encoded(data: bytes) -> Iterator[str]:
    """In base64, wherever in the encoded bytes it begins: what its neighbours decide is cut off."""
    for before in range(3):
        first, last = (0, 2, 3)[before], (before + len(data)) * 8 // 6
        text = base64.b64encode(bytes(before) + data).decode()[first:last]
        yield text
        yield text.translate(str.maketrans("+/", "-_"))
