"""What does Python lack? Utilities that know nothing of terminals.

Responsibilities: records, patterns and caches that cost little at start-up; validation and display
of untrusted text.

Flow at a glance: none. Every other folder may import from here, and this one from nowhere.

Files, in reading order:
  frozen        dataclasses with slots, frozen or mutable, cheap to define
  lazy_regex    our patterns, compiled on first use
  lazy_module   standard modules, loaded on first use
  safe_regex    users' patterns, refused when they could run away (ReDoS)
  memo          lru_cache for short texts
  times         durations, moments and sizes, for programs and for people
  ids           ULIDs, short ids that people type, counted milliseconds
  pulse         an event that is set and renewed: something changed
  worker_threads  where blocking work is done, and coroutines without a loop
  readable      descriptors to be read, by an epoll beside the event loop's
  json_codec    dataclasses ↔ camelCase JSON
  validate      object → typed value, or a message for its author
  visible_text  sanitized text for people: inline(), brief(), lines()
"""
