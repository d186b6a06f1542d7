"""Is all well? Metrics, alerts, health and tracing.

Responsibilities: count and time what the event bus tells; the engine counts nothing itself.

Flow at a glance:
1. `metrics` and `spans` listen on the event bus.
2. `alerts` compares with thresholds, and tells when one is crossed.
3. `prometheus` prints it all as text.

Files, in reading order:
  metrics     what is counted
  prometheus  counters, gauges, histograms, text format
  alerts      thresholds, health
  spans       OpenTelemetry
"""
