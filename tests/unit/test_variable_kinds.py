import pytest

from shelltie.environment.variable_kinds import (
    is_channel_name,
    is_hook_name,
    is_inert_name,
    is_loader_name,
    is_secret_value,
)
from shelltie.output.secret_names import is_path_to_secret, is_secret_name


def names(text: str) -> list[str]:
    return text.split()


SECRET = names("""
AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN AWS_SECURITY_TOKEN DATABASE_PASSWORD
DATABASE_URL DB_PASSWORD API_KEY Api_Key api_key apiKey AUTH_TOKEN GITHUB_TOKEN GH_TOKEN SECRET_KEY
SECRET_KEY_BASE OPENAI_API_KEY ANTHROPIC_API_KEY HF_TOKEN NPM_TOKEN NODE_AUTH_TOKEN PGPASSWORD
MYSQL_PWD MYSQL_ROOT_PASSWORD REDIS_URL REDISCLI_AUTH MONGODB_URI MONGO_URL POSTGRES_URL
HEROKU_POSTGRESQL_RED_URL TEST_DATABASE_URL SQLALCHEMY_DATABASE_URI AMQP_URL CLOUDAMQP_URL
CELERY_BROKER_URL AZURE_STORAGE_CONNECTION_STRING AZURE_CLIENT_SECRET GITHUB_PAT SENTRY_DSN
SLACK_WEBHOOK_URL DISCORD_WEBHOOK SESSION_COOKIE JWT_SECRET JWT BEARER PASSWORD PASSWD PASSPHRASE
GPG_PASSPHRASE SSHPASS ROOTPASSWORD CLIENTSECRET MYTOKEN STRIPE_APIKEY DOCKER_AUTH_CONFIG
GOOGLE_APPLICATION_CREDENTIALS DB_CREDS VAULT_TOKEN SSH_PRIVATE_KEY ENCRYPTION_KEY SIGNING_KEYS
awsSecretAccessKey dbPassword OAuth2Token TOKEN2 K8S_TOKEN_1 npm_config__authToken
CI_JOB_TOKEN CARGO_REGISTRY_TOKEN TWINE_PASSWORD OAUTH_CLIENT WALLET_MNEMONIC
PW ADMIN_PW LDAP_BIND_PW ROOTPW dbPw DBPASS MYPASS PGPASS KEYSTORE_PASS STOREPASS USERPASS SMTPPASS
DBPWD MASTERKEY OPENAIKEY AUTHKEY TS_AUTHKEY SSHKEY PRIVKEY PASSKEY masterkey openaiKey DBPASS_2
WIFI_PSK PSK IPSEC_PSK GCP_CRED AWS_CRED GCPCREDS AZURE_CREDENTIAL STRIPE_SK STRIPE_SK_2
SUPABASE_SERVICE_ROLE SUPABASE_SERVICE_ROLE_V2 SERVICE_ACCOUNT_JSON GOOGLE_SERVICE_ACCOUNT_JSON
SERVICE_ACCOUNT_BASE64 SERVICE_ACCOUNT_B64 GCP_SA_JSON FIREBASE_CONFIG KUBECONFIG_DATA
KUBE_CONFIG_DATA KUBECONFIG_B64 DOCKER_CONFIG_JSON DOCKERCONFIGJSON PASSWORD_SALT APP_SALT SALT
SEED_PHRASE WALLET_SEED_PHRASE RECOVERY_PHRASE WALLET_SEED APP_PASSCODE AZURE_STORAGE_SAS
DB_CONN_STR CONN_STRING CONNSTR ConnectionString AUTH_TOKENS API_TOKENS TOTAL_TOKEN LIMIT_PASSWORD
BW_SESSION OP_SESSION_my OP_SESSION FASTLANE_SESSION ACCESSTOKENS DBPASSWORDS OPENAIKEYS AWSSECRETS
SECRETKEYBASE DB_PSWD DBPSWD ANDROID_KEYSTORE_BASE64 KEYSTORE_B64 ConnectionStrings__Default
KAFKA_SASL_JAAS_CONFIG COSMOS_PRIMARY_KEY NEXT_PUBLIC_API_KEY TYPE_TOKEN KEY PASS AUTH SSH_HOST_KEY
""")
HARMLESS = names("""
KEYBOARD_LAYOUT KEYMAP KEYTIMEOUT AUTHOR GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL AUTHORS NODE_ENV CI
CAWS_TASK_ID CAWS_AGENT_ID CAWS_SESSION_ID PWD OLDPWD MAX_TOKENS CLAUDE_CODE_MAX_OUTPUT_TOKENS
TOKENIZERS_PARALLELISM SSL_CERT_FILE PATH HOME USER LANG LC_ALL TERM SHELL DISPLAY EDITOR PAGER
XAUTHORITY MONKEY TURKEY COMPASS_DIR BYPASS_CACHE SECRETARY PASSENGER_ENV DATABASE_NAME DB_HOST
DB_PORT REDIS_HOST BASE_URL PUBLIC_URL API_URL NPM_CONFIG_CACHE AWS_REGION AWS_PROFILE KUBECONFIG
DOCKER_HOST XDG_SESSION_ID XDG_RUNTIME_DIR VIRTUAL_ENV PYTHONPATH COLUMNS PASSWORD_STORE_DIR
SSH_CONNECTION SSH_TTY LESSKEY WINDOWID CERTIFICATE_DIR HTTP_PROXY SHELLTIE_RUN PATTERN
KEYBOARD XKB_DEFAULT_LAYOUT XKBOPTIONS SSH_AUTH_SOCK BYPASS TRESPASS COMPASS PASSENGER HOTKEY DONKEY
SPIDERMONKEY GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS SSH_PUBKEY PASSTHROUGH PASSIVE_MODE SALT_MASTER
SALT_MINION_ID RANDOM_SEED PYTHONHASHSEED SEED SERVICE_ACCOUNT_NAME SERVICE_ROLE_ARN SERVICE_NAME
FIREBASE_PROJECT KUBE_CONTEXT DOCKER_CONFIG GOPRIVATE TASK DISK DISK_SIZE SKIP_TESTS PWDEBUG
SASS_PATH PHRASE CONFIG_JSON PACKAGE_JSON CONN_MAX STRING CREDIT CREDO PWNED
LOWPASS LOWPASS_HZ HIGHPASS PREPASS MICKEY MODKEY PASS_COUNT LLVM_PASS AUTH_TYPE AUTH_PORT KEY_SIZE
PRIMARY_KEY PUBLIC_KEY RSA_PUBLIC_KEY TOKEN_LIMIT PASSWORD_MIN_LENGTH JWT_ALGORITHM COOKIE_SECURE
WEBHOOK_PORT keySize HOTKEYS MONKEYS MAXTOKENS SESSION DESKTOP_SESSION KEYSTORE_TYPE
""")
SHAPED = {
    "AKIAIOSFODNN7EXAMPLE": "aws_access_key",
    "x ghp_" + "a1B2" * 9: "github_token",
    "github_pat_" + "11ABCDEFG0" * 3: "github_token",
    "glpat-" + "a1b2c3d4e5f6g7h8i9j0": "gitlab_token",
    "sk-ant-api03-" + "a" * 93: "anthropic_key",
    "sk-proj-" + "Ab1_" * 10: "openai_key",
    "sk-" + "abcdefghijklmnop12345678": "openai_key",
    "AIza" + "Sy" + "a" * 33: "google_key",
    "xoxb-123456789012-abcdef": "slack_token",
    "sk_live_4eC39HqLyjWDarjtT1zdp7dc": "stripe_key",
    "npm_" + "a1" * 18: "npm_token",
    "hf_" + "abcdefgh" * 4 + "xy": "hugging_face_token",
    "https://user:hunter2@example.org/x": "url_password",
    "redis://:hunter2@cache:6379/0": "url_password",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk": "private_key",
    '{"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIE"}': "private_key",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc": "jwt",
    "Bearer abcdefghij0123456789": "bearer",
}
ORDINARY = """
/usr/local/bin:/usr/bin:/bin
3367669a6d961a7a0343ae761a3d025fde8aaaaa
550e8400-e29b-41d4-a716-446655440000
e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
git@github.com:owner/repository.git
ssh://git@github.com:22/owner/repository.git
http://localhost:8080/@scope/package
https://example.org/a:b@c
task-0123456789abcdef0123456789
sk-learn-tutorials-for-beginners-and-others
postgres://user:${PASSWORD}@host/db
postgres://user:<password>@host/db
https://user:[REDACTED:url_password]@host
Bearer YOUR_ACCESS_TOKEN_GOES_HERE
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
rs=0:di=01;34:ln=01;36:mh=00:pi=40;33
""".strip().splitlines()


@pytest.mark.parametrize("name", SECRET)
def test_a_name_with_a_word_of_a_secret_is_one(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", HARMLESS)
def test_a_name_that_only_contains_the_letters_is_none(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(("value", "kind"), SHAPED.items())
def test_a_value_shows_its_kind_by_its_shape(value: str, kind: str) -> None:
    assert is_secret_value(value) == kind


@pytest.mark.parametrize("value", ORDINARY)
def test_an_ordinary_value_has_no_kind(value: str) -> None:
    assert is_secret_value(value) is None


@pytest.mark.parametrize(
    "name",
    names(
        "LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES BASH_ENV ENV BASH_FUNC_ls%% NODE_OPTIONS"
        " PERL5OPT RUBYOPT JAVA_TOOL_OPTIONS GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_CONFIG_COUNT"
        " GIT_CONFIG_KEY_0 LESSOPEN"
    ),
)
def test_a_loader_is_a_hook_too(name: str) -> None:
    assert is_loader_name(name)
    assert is_hook_name(name)


@pytest.mark.parametrize(
    "name",
    names(
        "PATH PAGER GIT_PAGER EDITOR PYTHONPATH NODE_PATH npm_config_registry NPM_CONFIG_REGISTRY"
        " PIP_INDEX_URL UV_INDEX UV_DEFAULT_INDEX UV_EXTRA_INDEX_URL MAKEFLAGS RUSTC_WRAPPER"
        " CARGO_BUILD_RUSTC CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER RIPGREP_CONFIG_PATH"
    ),
)
def test_a_hook_need_not_load_code(name: str) -> None:
    assert is_hook_name(name)
    assert not is_loader_name(name)


@pytest.mark.parametrize(
    "name", names("FOO CI NODE_ENV CARGO_TARGET_DIR UV_CACHE_DIR LANG TERM env path HOME LDFLAGS")
)
def test_other_names_are_no_hooks(name: str) -> None:
    assert not is_hook_name(name)


def test_only_what_changes_how_output_looks_is_inert() -> None:
    assert all(map(is_inert_name, ("LANG", "LC_ALL", "TZ", "NO_COLOR", "COLUMNS")))
    assert not any(map(is_inert_name, ("PATH", "HOME", "FOO", "LD_PRELOAD", "KUBECONFIG")))


def test_ways_to_the_users_keys_are_known() -> None:
    assert is_channel_name("SSH_AUTH_SOCK")
    assert not is_secret_name("SSH_AUTH_SOCK")
    assert not is_channel_name("SSH_CONNECTION")


def test_where_a_secret_is_kept_is_no_secret() -> None:
    assert is_path_to_secret("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token")
    assert is_path_to_secret("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json")
    assert not is_path_to_secret(
        "AWS_SECRET_ACCESS_KEY", "/J4lrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    )
