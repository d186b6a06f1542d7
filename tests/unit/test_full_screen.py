from shelltie.output.full_screen import FullScreen


def test_the_last_mode_counts_however_it_is_cut() -> None:
    heard = b"plain\x1b[?1049h\x1b[?1h drawn \x1b[?25l"
    screen = FullScreen()

    for at in range(len(heard)):
        screen.hear(heard[at : at + 1])
    drawing = screen.on
    screen.hear(b"\x1b[?1l\x1b[?1049l$ ")

    assert (drawing, screen.on) == (True, False)


def test_a_prompt_with_colours_and_paste_mode_is_no_screen() -> None:
    screen = FullScreen()

    screen.hear(b"\x1b[?2004h\x1b[1;32muser\x1b[m$ \x1b[?12l\x1b[?25h")

    assert not screen.on
