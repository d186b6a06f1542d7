from shelltie.events import Asker, CommandRefused, ContextRefused, Event, Leaked
from shelltie.model import RunId
from shelltie.running.interfaces import Bus

REFUSED = CommandRefused(RunId("1"), 0.0, "rm", "DENIED", "no")
LEAKED = Leaked(RunId("1"), 0.0, (7,))


def test_who_names_kinds_of_events_hears_of_no_others() -> None:
    bus, some, every = Bus(), list[Event](), list[Event]()
    bus.subscribe(some.append, frozenset((Leaked,)))
    leave = bus.subscribe(every.append)
    bus.publish(REFUSED)
    bus.publish(LEAKED)
    leave()
    bus.publish(LEAKED)

    assert some == [LEAKED, LEAKED]
    assert every == [REFUSED, LEAKED]


def test_a_kind_stands_for_its_special_cases() -> None:
    bus, heard = Bus(), list[Event]()
    bus.subscribe(heard.append, frozenset((CommandRefused,)))
    asker = Asker("session", "task", "agent")
    special = ContextRefused(RunId("2"), 0.0, "rm", "DENIED", "no", asker, {})
    for event in (special, REFUSED, LEAKED):
        bus.publish(event)

    assert heard == [special, REFUSED]


def test_who_comes_while_others_are_told_hears_the_next_event() -> None:
    bus, late = Bus(), list[Event]()

    def invite(_: Event) -> None:
        bus.subscribe(late.append)

    bus.subscribe(invite)
    bus.publish(REFUSED)
    bus.publish(LEAKED)

    assert late == [LEAKED]


def test_who_names_kinds_comes_and_leaves_after_others_were_told() -> None:
    bus, first, second = Bus(), list[Event](), list[Event]()
    asker = Asker("session", "task", "agent")
    special = ContextRefused(RunId("2"), 0.0, "rm", "DENIED", "no", asker, {})
    events: tuple[Event, ...] = (special, REFUSED, LEAKED)
    bus.subscribe(first.append)
    for event in events:
        bus.publish(event)
    leave = bus.subscribe(second.append, frozenset((CommandRefused,)))
    for event in events:
        bus.publish(event)
    leave()
    for event in events:
        bus.publish(event)

    assert first == [*events, *events, *events]
    assert second == [special, REFUSED]
