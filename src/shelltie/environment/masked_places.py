"""Where credentials are kept: places that a read-only view masks, in a home and of the system."""

# Relative to the home. Each is secret to the rules of `safety/` as well.
IN_HOME = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".vault-token", ".netrc"),
    *("_netrc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".pypirc", ".git-credentials", ".token"),
    *(".htpasswd", ".s3cfg", ".boto", ".databrickscfg", ".terraformrc", ".tsh", ".oci", ".hgrc"),
    *(".dockercfg", ".docker/config.json", ".config/gcloud", ".config/gh", ".config/hub"),
    *(".config/git/credentials", ".config/doctl", ".config/rclone", ".config/op", ".config/sops"),
    *(".config/configstore", ".config/google-chrome", ".config/chromium", ".config/solana"),
    *(
        ".config/github-copilot",
        ".config/glab-cli",
        ".config/stripe",
        ".config/pip",
        ".pip/pip.conf",
    ),
    *(".config/Slack", ".config/discord", ".config/Signal", ".config/BraveSoftware", ".mozilla"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".bundle/config"),
    *(".terraform.d", ".snowsql/config", ".local/share/keyrings", ".electrum", ".bitcoin"),
    *(".ethereum", ".m2/settings.xml", ".m2/settings-security.xml", ".composer/auth.json"),
    *(".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".fly", ".sentryclirc"),
    *(".gradle/gradle.properties", ".gemini/oauth_creds.json", ".huggingface/token", ".kaggle"),
    *(".cache/huggingface/token", ".jfrog", ".keybase", ".thunderbird", ".cloudflared"),
    *(".npmrc", ".yarnrc.yml", ".wgetrc", ".curlrc", "Library/Keychains"),
)
# In a project, unless git tracks it.
IN_PROJECT = (
    *(".env", ".env.local", ".env.development", ".env.development.local", ".env.dev"),
    *(".env.production", ".env.production.local", ".env.prod", ".env.staging", ".env.test"),
)
IN_SYSTEM = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers"),
    *("/etc/sudoers.d", "/etc/ssl/private", "/etc/krb5.keytab", "/etc/security/opasswd"),
    *("/etc/wireguard", "/etc/ipsec.secrets", "/etc/NetworkManager/system-connections"),
    *("/etc/mysql/debian.cnf", "/etc/kubernetes", "/etc/rancher", "/etc/shelltie"),
    *("/var/backups/shadow.bak", "/var/backups/gshadow.bak", "/var/lib/jenkins/secrets"),
    *("/run/secrets", "/sys/kernel/debug", "/sys/kernel/tracing"),
)
