"""Is it harmless? Static analysis of commands: rules, rating, verdict.

Responsibilities: safe only what is proved; unknown in doubt; dangerous with a reason that names
its place in the text. Rules about programs are data (programs/*.toml) with their own examples;
`scripts/rules-index` writes their index anew.

Data:
  programs/*.toml      rules about programs; index.json says which file has which
  programs/compiled/   the same as JSON, made by the build
  data/foreign.toml    danger in texts for PowerShell and cmd.exe
  data/help.toml       programs of which --help is safe though they do more than read
  data/inline.toml     danger in program text of other languages
  data/paths.toml      secret and protected paths
  data/variables.toml  what setting a variable can do
  rules.schema.json    what a rule file may say

Flow at a glance:
1. `judge` parses the text (shell/), and has `rating` inspect each simple command.
2. A command is rated by its program's rule (`rule_set`, `by_rule`), a builtin, or a wrapper.
3. `values` and `dataflow` say what variables, pipes and files can hold.
4. What the rules call safe, shfmt must read alike, and `disk_checks` must hold.

Files, in reading order:
  judge              the verdict
  rating             a whole script; the strictest wins
  inspection         one command while it is inspected
  arg                one argument
  option_split       options, values, operands
  rule               what is known about a program
  by_rule            rating by it
  rule_parser        TOML → rules
  rule_set           the rules in force
  rule_examples      each rule's own test
  command_lists      allowlist and denylist of names
  protected_names    secret and protected paths, loader variables
  values             what words can be
  dataflow           stdin, pipes, files
  echo               what echo and printf print
  shell_syntax       assignments, redirections, computed names
  word_splitting     words that become options or files at run time
  builtins           eval, exec, source, trap
  wrappers           sudo, xargs, find -exec
  search_pattern     which patterns fit most lines
  sed                sed scripts
  awk                awk programs
  other_languages    PowerShell, cmd.exe, python -c, node -e
  file_name_sources  find, ls and git ls-files as sources of names
  file_reads         where names of files lead on disk
  git_config         what git would run in a repository
  second_parser      shfmt, started before its text is there
  disk_checks        what must hold on disk
"""
