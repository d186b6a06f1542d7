import anyio

from shelltie.basics.pulse import Pulse


async def test_a_beat_wakes_all_who_wait_and_nobody_who_comes_later() -> None:
    pulse = Pulse()
    woken: list[str] = []

    async def wait(name: str) -> None:
        await pulse.wait()
        woken.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, "first")
        tasks.start_soon(wait, "second")
        await anyio.wait_all_tasks_blocked()
        pulse.beat()
        tasks.start_soon(wait, "late")
        await anyio.wait_all_tasks_blocked()
        before = sorted(woken)
        pulse.beat()

    assert before == ["first", "second"]
    assert sorted(woken) == ["first", "late", "second"]
