"""Explorers in a page: put in, followed, taken away, printed, and what goes wrong."""

import pytest

from attnlab.explorers import Explorer, MaskExplorer, ScalingExplorer, _page

# A script on an explorer of masks: its model, and a host in which it can be mounted.
ON_A_MODEL = """async keys => {{
    const [start, key, page] = keys.map(key => attnlabModules[key]);
    const block = document.querySelector('.attnlab-explorer script');
    const model = page.loneModel(JSON.parse(block.textContent));
    const {{get, set}} = model, callbacks = {{}}, host = document.createElement('div');
    model.on = (name, callback) => {{ callbacks[name] = callback; }};
    model.off = name => delete callbacks[name];
    document.body.append(host);
    const mount = () => start.mount(key, model, host);
    const cell = place => host.shadowRoot.querySelectorAll('button.cell')[place];
    {script}
}}"""


@pytest.fixture
def on_a_model(open_cards):
    """Run a script on a model; return what it returns."""

    def run(script):
        [card] = open_cards([MaskExplorer(ask=False)])
        keys = [_page.key_of(name) for name in ("base", "masks", "page")]
        return card.page.evaluate(ON_A_MODEL.format(script=script), keys)

    return run


def test_nothing_is_left_when_an_explorer_is_taken_away(on_a_model):
    """Neither listeners outside the explorer, nor callbacks of the model, nor answers to events."""
    outside, counts, children = on_a_model(
        """let sent = 0;
        model.set = () => { sent += 1; };
        const outside = [], add = EventTarget.prototype.addEventListener;
        EventTarget.prototype.addEventListener = function (...rest) {
            if ([window, document, document.body, document.documentElement].includes(this))
                outside.push(rest[0]);
            return add.apply(this, rest);
        };
        const counts = [], count = () => counts.push([Object.keys(callbacks).length > 5, sent]);
        for (let i = 0; i < 2; i += 1) {
            const end = mount(), first = cell(0);
            first.click();
            count();
            end();
            first.click();
            count();
        }
        EventTarget.prototype.addEventListener = add;
        return [outside, counts, host.shadowRoot.childNodes.length];"""
    )
    assert (outside, children) == ([], 0)
    assert counts == [[True, 1], [False, 1], [True, 2], [False, 2]]


def test_a_step_draws_once_and_so_does_what_somebody_else_sets(on_a_model):
    draws = on_a_model(
        """let draws = 0;
        model.get = name => { draws += name === 'answer'; return get(name); };
        model.set = (name, value) => { set(name, value); callbacks[`change:${name}`](); };
        mount();
        const counts = [];
        for (const act of [() => cell(0).click(),
            () => { model.set('mask', 'window'); model.set('window', 2); }]) {
            draws = 0;
            act();
            await new Promise(requestAnimationFrame);
            counts.push(draws);
        }
        return counts;"""
    )
    assert draws == [1, 1]


def test_a_step_that_fails_elsewhere_leaves_the_explorer_following(on_a_model, tab):
    """Somebody else's listener raises at a step; what is set later is drawn all the same."""
    shown = on_a_model(
        """model.set = () => { throw new Error('not mine'); };
        mount();
        cell(0).click();
        const before = cell(1).ariaLabel;
        set('mask', 'none');
        callbacks['change:mask']();
        await new Promise(requestAnimationFrame);
        return [before, cell(1).ariaLabel];"""
    )
    assert ["blocked" in label for label in shown] == [True, False]
    assert tab.problems == ["not mine"]
    tab.problems.clear()


def test_texts_of_the_learner_are_texts(open_cards, tab):
    evil = ["</script>", "<!--<script>", "<b>x</b>", "${1}`\\", "</SCRIPT "]
    explorer = MaskExplorer(evil, ask=False, padding=[0])
    [card] = open_cards([explorer])
    assert card.locator(".main tbody th").all_inner_texts() == [word.strip() for word in evil]
    assert card.locator(".say").inner_text() == explorer.say()
    assert tab.problems == []


def test_a_state_that_cannot_be_shown_gets_a_sentence_and_the_picture(tab, tmp_path):
    html = ScalingExplorer(ask=False).to_html().replace('"d_k":4', '"d_k":"<b>"')
    host = tab.show(tmp_path, html).locator(".attnlab-explorer")
    assert "cannot show its state" in host.get_by_role("alert").inner_text()
    assert host.locator("img").is_visible()
    tab.problems.clear()


def test_a_page_prints_the_question_and_not_what_it_veils(open_cards):
    asking, answered = open_cards([ScalingExplorer(), ScalingExplorer(ask=False)])
    asking.page.emulate_media(media="print")
    gate = asking.get_by_role("group", name="Predict first")
    shown = gate.evaluate("e => getComputedStyle(e, '::after').content")
    assert all(option in shown for option in ScalingExplorer().prediction.options)
    for part in (".bar", ".say", ".picture", ".gate button"):
        assert asking.locator(part).first.is_hidden(), part
    assert answered.locator(".picture").is_visible()
    asking.page.emulate_media(media="screen")


# --- the output that carries the scripts ----------------------------------------------------------


@pytest.fixture
def outputs(monkeypatch):
    """Return explorers and what a notebook stores of them: the first carries what they share."""
    monkeypatch.setattr(Explorer, "_picture", lambda self: b"")
    monkeypatch.setattr(_page, "_stored", set())
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    made = [ScalingExplorer(ask=False), MaskExplorer(ask=False), MaskExplorer(padding=[0])]
    return made, [explorer._repr_mimebundle_()["text/html"] for explorer in made]


def said(page):
    """Return the sentences of the explorers that move; None for those that stand still."""
    return page.locator(".attnlab-explorer").evaluate_all(
        "all => all.map(one => one.shadowRoot?.querySelector('.say').textContent ?? null)"
    )


def test_without_their_scripts_explorers_stand_still_until_one_is_run(outputs, tab, tmp_path):
    made, pieces = outputs
    page = tab.show(tmp_path, *pieces[1:])
    assert said(page) == [None, None]
    for explorer, host in zip(made[1:], page.locator(".attnlab-explorer").all(), strict=True):
        assert host.locator("img").get_attribute("alt") == explorer.say()
        assert host.locator("p").first.inner_text() == explorer.say()
        assert "Run this cell" in host.inner_text()
    page.add_script_tag(type="module", content=_page.widget_script("declared"))
    page.wait_for_function("document.querySelector('.attnlab-explorer').shadowRoot")
    assert said(page) == [explorer.say() for explorer in made[1:]]


def test_scripts_come_in_any_order_and_a_page_may_leave_some_out(outputs, tab, tmp_path):
    made, pieces = outputs
    bare = pieces[1].partition("<script")[0] + "</div>"
    page = tab.show(tmp_path, bare, *reversed(pieces))
    assert said(page) == [None, *(explorer.say() for explorer in reversed(made))]
    assert tab.problems == []
