"""Names of variables that hold secrets (`*_TOKEN`, `*_PASSWORD`, …). Pure."""

from collections.abc import Sequence

from shelltie.basics.lazy_regex import lazy


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORDS = _names(
    "KEY KEYS TOKEN TOKENS SECRET SECRETS PASSWORD PASSWORDS PASSWD PASS PWD PASSPHRASE"
    " CREDENTIAL CREDENTIALS CREDS AUTH OAUTH AUTHORIZATION APIKEY APIKEYS ACCESSKEY SECRETKEY"
    " PRIVATEKEY PAT DSN JWT BEARER COOKIE COOKIES WEBHOOK MNEMONIC PSK CRED PASSCODE PSWD"
    " PSW PASSWRD PFX"
)
# How a word ends that was written without a line between its parts: DBPASS, OPENAIKEY.
_ENDINGS = (
    *("PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN", "CREDENTIALS", "CREDENTIAL", "CREDS"),
    *("PASSWORDS", "SECRETS", "TOKENS", "KEYS", "SECRETKEYBASE", "PSWD", "KEY", "PASS", "PW"),
    *("PSW", "PASSWRD", "SECRETID", "DOCKERCFG"),
    *("PWD", "CONNECTIONSTRING", "CONNECTIONSTRINGS", "CONNSTR", "DOCKERCONFIGJSON"),
)
_ENDS_ALIKE = _names(
    "MONKEY TURKEY DONKEY HOCKEY JOCKEY WHISKEY HOTKEY LESSKEY YUBIKEY PUBKEY PUBLICKEY HOSTKEY"
    " SORTKEY CACHEKEY PRIMARYKEY FOREIGNKEY PARTITIONKEY SPIDERMONKEY GREASEMONKEY TAMPERMONKEY"
    " SURVEYMONKEY BYPASS COMPASS ENCOMPASS TRESPASS SURPASS OVERPASS UNDERPASS MULTIPASS"
    " SINGLEPASS RENDERPASS ASKPASS LASTPASS KEEPASS OLDPWD LOWPASS HIGHPASS BANDPASS"
    " ALLPASS PREPASS MICKEY MODKEY MAXTOKEN MINTOKEN NUMTOKEN VALKEY PW"
)
# Elsewhere they are a country, a program, Playwright and how something is signed.
_LAST_WORDS = _names("SK SALT PW HMAC")
# Words that mean a secret only together.
_TOGETHER = tuple(
    _names(text)
    for text in (
        *("CONNECTION STRING", "CONN STRING", "CONN STR", "SEED PHRASE", "RECOVERY PHRASE"),
        *("WALLET PHRASE", "WALLET SEED", "SUPABASE SERVICE ROLE", "FIREBASE CONFIG"),
        *("SERVICE ACCOUNT JSON", "SERVICE ACCOUNT BASE", "SERVICE ACCOUNT B", "SA JSON"),
        *("KUBECONFIG DATA", "KUBECONFIG BASE", "KUBECONFIG B", "KUBE CONFIG DATA"),
        *("DOCKER CONFIG JSON", "AZURE SAS", "STORAGE SAS", "BW SESSION", "OP SESSION"),
        *("FASTLANE SESSION", "KEYSTORE BASE", "KEYSTORE B", "CONNECTION STRINGS", "JAAS CONFIG"),
        *("GOOGLE SERVICE ACCOUNT", "FIREBASE SERVICE ACCOUNT", "GCP SERVICE ACCOUNT"),
        *("KUBE CONFIG", "KUBECONFIG CONTENT", "NETRC CONTENT", "NPMRC CONTENT", "DOCKER CFG"),
        *("ID RSA", "ID ECDSA", "ID DSA", "OTP SEED", "TOTP SEED", "MFA SEED", "SAS URL"),
        *("SAS URI", "CARD PIN", "SIM PIN", "CERT BASE", "CERT B", "CERTIFICATE BASE"),
        *("CERTIFICATE B",),
    )
)
_STORES = _names(
    "DATABASE DB SQL REDIS MONGO MONGODB POSTGRES POSTGRESQL PG MYSQL MARIADB MSSQL SQLSERVER AMQP"
    " RABBITMQ CLOUDAMQP BROKER CELERY ELASTICSEARCH ELASTIC OPENSEARCH CLICKHOUSE COCKROACH"
    " COUCHDB NEO4J CASSANDRA MEMCACHED INFLUXDB JDBC SMTP LDAP"
)
_ADDRESSES = frozenset({"URL", "URI", "URLS", "URIS"})
_PLACES = _ADDRESSES | {"ENDPOINT"}
# They have a word of a secret in their name, and none in their value.
_HARMLESS = _names(
    "PWD OLDPWD PASSWORD_STORE_DIR SSH_AUTH_SOCK DISABLE_AUTH PRIMARY_KEY FOREIGN_KEY SORT_KEY"
    " PARTITION_KEY CACHE_KEY LLVM_PASS"
)
# A name that ends so is a setting: how long a secret is, of which kind, until when.
_SETTINGS = _names(
    "TYPE KIND PORT SIZE COUNT LIMIT LENGTH LEN BITS BYTES ALGORITHM ALG ALGO CURVE FORMAT ENCODING"
    " MODE METHOD TTL TIMEOUT EXPIRY EXPIRES EXPIRATION LIFETIME AGE INTERVAL DAYS HOURS MINUTES"
    " SECONDS VERSION ENABLED DISABLED REQUIRED SECURE SAMESITE HTTPONLY STDIN HOST DOMAIN NAME"
    " EMAIL ISSUER AUDIENCE REALM SCOPE SCOPES PROVIDER PREFIX COLUMN REPORTER"
)
# Code is full of them: a small one alone names the key of a table, a part of a text, a success.
_EVERYDAY = _names("key keys token tokens pass auth cookie cookies pat salt sk cred webhook")
_AMOUNTS = _names(
    "MAX MIN NUM N TOTAL LIMIT BUDGET COUNT CONTEXT PROMPT COMPLETION INPUT OUTPUT PER"
)
# With an address behind it, one of these names where to sign in.
_SIGNS_IN = _names("AUTH OAUTH JWT TOKEN TOKENS COOKIE")
# The keys of a keyboard.
_PRESSED = _names("PREFIX ESCAPE TAB LEADER META CTRL ALT SHIFT MODIFIER SHORTCUT ENTER")
_ARCHIVE = lazy(r"(?:^|_)(?:P12|PKCS12)(?:_|$)")  # of a certificate and its key
_SEGMENT = lazy(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_FILE_NAME = lazy(r"_(?:FILE|PATH|DIR)$")
_FILE = lazy(r"(?:/|~/|\./)\S*\.\w{2,5}$")


def is_secret_name(name: str) -> bool:
    """What a variable of this name holds is a secret: `API_KEY`, `PGPASSWORD`, `DATABASE_URL`.

    Whole words count, and how they end, in any case: `KEYBOARD_LAYOUT` and `AUTHOR` are none,
    and neither are settings: `KEY_SIZE`.
    """
    parts = [word.upper() for word in _SEGMENT.findall(name) if not word.isdigit()]
    if _HARMLESS & {name.upper(), name.upper().removesuffix("S")} or _SETTINGS.intersection(
        parts[-1:]
    ):
        return False
    if parts[-2:] == ["PUBLIC", "KEY"]:
        parts = parts[:-2]
    words = frozenset(parts)
    if (words & _STORES and words & _ADDRESSES) or any(few <= words for few in _TOGETHER):
        return True
    if _ARCHIVE.search(name.upper()):
        return True
    if _is_no_secret(parts, words):
        return False
    if words & _WORDS or _LAST_WORDS.intersection(parts[-1:]):
        return True
    others = (word for word in words if not {word, word.removesuffix("S")} & _ENDS_ALIKE)
    return any(word.endswith(_ENDINGS) for word in others)


def _is_no_secret(parts: Sequence[str], words: frozenset[str]) -> bool:
    """An amount, an address to sign in at, who signs in, a key of the keyboard."""
    if "TOKENS" in words and words & _AMOUNTS:
        return True
    if _PLACES.intersection(parts[-1:]):
        return bool(words & _WORDS) and words & _WORDS <= _SIGNS_IN
    last = tuple(parts[-2:])
    return last == ("CLIENT", "ID") or (last[1:] in (("KEY",), ("KEYS",)) and last[0] in _PRESSED)


def is_everyday_word(name: str) -> bool:
    """It is a word of every other script, written small: `key`, `token`, `pass`.

    Variables of the environment are written in capitals.
    """
    return name in _EVERYDAY


def is_path_to_secret(name: str, value: str) -> bool:
    """It only says where a secret is kept: there is nothing to hide in it."""
    return _FILE_NAME.search(name.upper()) is not None or _FILE.match(value) is not None
