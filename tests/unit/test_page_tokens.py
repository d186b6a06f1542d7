from shelltie.frontends.web.access import PageRole, PageTokens


def test_each_link_has_a_token_of_its_own() -> None:
    tokens = PageTokens(steers=True)
    view, steer = tokens.token(PageRole.VIEW), tokens.token(PageRole.STEER)

    assert view is not None
    assert steer is not None
    assert (tokens.role(view), tokens.role(steer)) == (PageRole.VIEW, PageRole.STEER)
    assert tokens.role("") is None
    assert tokens.role(steer[:-1]) is None
    assert tokens.role("é") is None


def test_where_nobody_may_steer_there_is_no_token_for_it() -> None:
    tokens = PageTokens(steers=False)

    assert tokens.token(PageRole.STEER) is None
    assert tokens.take_code(tokens.new_code()) is PageRole.VIEW


def test_the_code_of_a_link_works_once() -> None:
    tokens = PageTokens(steers=True)
    code = tokens.new_code()

    assert tokens.take_code("another") is None
    assert tokens.take_code(code) is PageRole.STEER
    assert tokens.take_code(code) is None
