"""Classify environment variables: secret, agent socket, loader, hook or harmless. Pure."""

from shelltie.basics.lazy_regex import lazy
from shelltie.output import secret_shapes


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A channel to somebody who acts for the user. Its address is no secret, but it is withheld.
_CHANNELS = _names(
    "SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS GNOME_KEYRING_CONTROL"
    " GNOME_KEYRING_PID"
)

# Whatever the value: code of the caller's choice runs inside a program that is trusted.
_LOADERS = _names(
    "BASH_ENV ENV PROMPT_COMMAND SHELLOPTS BASHOPTS ZDOTDIR GCONV_PATH PYTHONSTARTUP PYTHONHOME"
    " PERL5OPT PERL5DB RUBYOPT NODE_OPTIONS NODE_REPL_EXTERNAL_MODULE"
    " JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS"
    " GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND GIT_EXEC_PATH GIT_TEMPLATE_DIR"
    " LESSOPEN LESSCLOSE"
)
_LOADER_PREFIXES = ("LD_", "DYLD_", "BASH_FUNC_", "GIT_CONFIG")
_HOOKS = _names(
    "PATH IFS PS0 PS4 CDPATH GLOBIGNORE POSIXLY_CORRECT BASH_COMPAT BASH_LOADABLES_PATH"
    " PAGER MANPAGER GIT_PAGER GH_PAGER BAT_PAGER DELTA_PAGER SYSTEMD_PAGER AWS_PAGER MANOPT"
    " LESS LESSKEY LESSKEYIN LESSKEY_CONTENT EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR"
    " GH_EDITOR KUBE_EDITOR FCEDIT SUDO_EDITOR BROWSER GH_BROWSER"
    " GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_OBJECT_DIRECTORY"
    " GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_ATTR_SOURCE GIT_SSH_VARIANT GIT_ASKPASS SSH_ASKPASS"
    " SUDO_ASKPASS"
    " KUBECTL_EXTERNAL_DIFF RIPGREP_CONFIG_PATH BAT_CONFIG_PATH FZF_DEFAULT_COMMAND"
    " FZF_DEFAULT_OPTS FZF_DEFAULT_OPTS_FILE GREP_OPTIONS TAR_OPTIONS"
    " PYTHONPATH PYTHONINSPECT PYTHONBREAKPOINT PYTHONUSERBASE PYTHONEXECUTABLE PYTHONPLATLIBDIR"
    " PYTHONPYCACHEPREFIX"
    " PERL5LIB PERLLIB PERL5SHELL RUBYLIB GEM_HOME GEM_PATH NODE_PATH CLASSPATH"
    " MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS SBT_OPTS GOFLAGS GOTOOLCHAIN GOPROXY GOENV"
    " RUSTFLAGS RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CARGO_ENCODED_RUSTFLAGS MAKEFLAGS"
    " GNUMAKEFLAGS MFLAGS MAKEFILES"
    " OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES SSLKEYLOGFILE GLIBC_TUNABLES GTK_MODULES"
    " GIO_EXTRA_MODULES"
    " TERMINFO TERMINFO_DIRS TERMCAP LOCPATH NLSPATH HOSTALIASES LOCALDOMAIN RES_OPTIONS"
)
_HOOK_PATTERN = lazy(
    r"(?:NPM_CONFIG|PIP|YARN|CARGO_BUILD)_|UV_(?:\w*_)?INDEX"
    r"|CARGO_TARGET_\w+_(?:LINKER|RUNNER|RUSTFLAGS)$"
)

_INERT = _names(
    "LANG LANGUAGE TZ NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE TERM COLORTERM COLUMNS LINES"
)


def is_secret_value(value: str) -> str | None:
    """The kind of secret that a value has in it, by its shape."""
    return secret_shapes.kind_of(value)


def is_channel_name(name: str) -> bool:
    """It leads to an agent that holds the user's keys: `SSH_AUTH_SOCK`."""
    return name in _CHANNELS


def is_loader_name(name: str) -> bool:
    """Whoever sets it has code of his own run in a program that is trusted: `LD_PRELOAD`."""
    return name in _LOADERS or name.startswith(_LOADER_PREFIXES)


def is_hook_name(name: str) -> bool:
    """It changes which code programs run, or how: `PATH`, `PAGER`, `PYTHONPATH` and all loaders."""
    if is_loader_name(name) or name in _HOOKS:
        return True
    return _HOOK_PATTERN.match(name.upper()) is not None  # npm reads its own in any case


def is_inert_name(name: str) -> bool:
    """It changes only how output looks: a safe command stays safe with it."""
    return name in _INERT or name.startswith("LC_")
