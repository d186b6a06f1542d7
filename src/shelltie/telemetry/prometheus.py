"""Prometheus counters, gauges, histograms and the text exposition format. Pure."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence

from shelltie.basics.frozen import frozen

SECONDS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
_SERIES_MAX = 200  # of one instrument; whatever comes after them is counted as `other`
_OTHER = "other"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

LabelValues = tuple[str, ...]


@frozen
class MetricSample:
    """One number, and what it is about."""

    name: str
    labels: Mapping[str, str]
    value: float


@frozen
class Family:
    """An instrument as it stands now; `kind` is a word of Prometheus."""

    name: str
    kind: str
    about: str
    samples: tuple[MetricSample, ...]


class Counter:
    """Only grows."""

    kind = "counter"

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self.name = name
        self._about = about
        self._labels = labels
        self._values: dict[LabelValues, float] = {} if labels else {(): 0.0}

    def add(self, *values: str, by: float = 1.0) -> None:
        """Count one more, or `by`, for these labels."""
        key = _bounded(self._values, values)
        self._values[key] = self._values.get(key, 0.0) + by

    @property
    def total(self) -> float:
        """Whatever its labels are."""
        return sum(self._values.values())

    def family(self) -> Family:
        """As it stands now."""
        named = [dict(zip(self._labels, key, strict=True)) for key in self._values]
        values = zip(named, self._values.values(), strict=True)
        samples = tuple(MetricSample(self.name, labels, value) for labels, value in values)
        return Family(self.name, self.kind, self._about, samples)


class Gauge:
    """What something is at the moment: asked for when somebody looks."""

    def __init__(self, name: str, about: str, read: Callable[[], float]) -> None:
        self.name = name
        self._about = about
        self._read = read

    def family(self) -> Family:
        """As it stands now."""
        return Family(
            self.name, "gauge", self._about, (MetricSample(self.name, {}, float(self._read())),)
        )


class Histogram:
    """How often something took how long."""

    def __init__(
        self, name: str, about: str, *labels: str, edges: Sequence[float] = SECONDS
    ) -> None:
        self.name = name
        self._about = about
        self._labels = labels
        self._edges = tuple(edges)
        self._counts: dict[LabelValues, list[int]] = {}
        self._sums: dict[LabelValues, float] = {}
        if not labels:
            self._open(())

    def _open(self, key: LabelValues) -> list[int]:
        self._sums[key] = 0.0
        self._counts[key] = [0] * (len(self._edges) + 1)
        return self._counts[key]

    def observe(self, value: float, *values: str) -> None:
        """It took this long."""
        key = _bounded(self._counts, values)
        counts = self._counts.get(key) or self._open(key)
        counts[bisect_left(self._edges, value)] += 1
        self._sums[key] += value

    def family(self) -> Family:
        """As it stands now."""
        samples = [sample for key in self._counts for sample in self._samples(key)]
        return Family(self.name, "histogram", self._about, tuple(samples))

    def _samples(self, key: LabelValues) -> Iterable[MetricSample]:
        labels = dict(zip(self._labels, key, strict=True))
        so_far = 0
        for edge, count in zip((*self._edges, None), self._counts[key], strict=True):
            so_far += count
            le = "+Inf" if edge is None else _number(edge)
            yield MetricSample(f"{self.name}_bucket", {**labels, "le": le}, so_far)
        yield MetricSample(f"{self.name}_sum", labels, self._sums[key])
        yield MetricSample(f"{self.name}_count", labels, so_far)


def _bounded(known: Mapping[LabelValues, object], key: LabelValues) -> LabelValues:
    """Names that a policy or a caller makes up must not fill the memory."""
    if key in known or len(known) < _SERIES_MAX:
        return key
    return (_OTHER,) * len(key)


def merged(parts: Iterable[tuple[Mapping[str, str], Iterable[Family]]]) -> list[Family]:
    """The families of several servers as one, each sample with the labels of its server."""
    found: dict[str, Family] = {}
    for labels, families in parts:
        for one in families:
            samples = tuple(
                MetricSample(s.name, {**labels, **s.labels}, s.value) for s in one.samples
            )
            before = found[one.name].samples if one.name in found else ()
            found[one.name] = Family(one.name, one.kind, one.about, (*before, *samples))
    return list(found.values())


def exposition(families: Iterable[Family]) -> str:
    """The text of Prometheus (version 0.0.4)."""
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: Family) -> Iterable[str]:
    about = family.about.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {family.name} {about}"
    yield f"# TYPE {family.name} {family.kind}"
    for sample in family.samples:
        pairs = [f'{name}="{value.translate(_ESCAPES)}"' for name, value in sample.labels.items()]
        labels = f"{{{','.join(pairs)}}}" if pairs else ""
        yield f"{sample.name}{labels} {_number(sample.value)}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def to_json(families: Iterable[Family]) -> list[dict[str, object]]:
    """Families on their way to another process."""
    return [
        {
            "name": family.name,
            "kind": family.kind,
            "about": family.about,
            "samples": [[s.name, dict(s.labels), s.value] for s in family.samples],
        }
        for family in families
    ]


def from_json(said: object) -> list[Family]:
    """Families that another process sent.

    Raises: ValueError if they are none.
    """
    match said:
        case list(rows):
            return [_family(row) for row in rows]
        case _:
            raise ValueError("metrics must be a list")


def _family(row: object) -> Family:
    match row:
        case {"name": str(name), "kind": str(kind), "about": str(about), "samples": list(samples)}:
            return Family(name, kind, about, tuple(map(_sample, samples)))
        case _:
            raise ValueError("this is no family of metrics")


def _sample(row: object) -> MetricSample:
    match row:
        case [str(name), dict(labels), int() | float() as value]:
            return MetricSample(name, {str(key): str(word) for key, word in labels.items()}, value)
        case _:
            raise ValueError("this is no sample")
