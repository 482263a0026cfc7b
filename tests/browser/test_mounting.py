"""Explorers in a page: put in, taken away, printed, saved, and what goes wrong."""

import pytest
import torch

from attnlab.explorers import Explorer, HeadView, MaskExplorer, ScalingExplorer
from attnlab.explorers.frame import bundle

# Mount an explorer of masks, click in it, take it away and click once more. Return, after each
# click, whether it listens to its model and how many steps the model was told; and what is left.
MOUNT = """keys => {
    const [start, key, page] = keys.map(key => attnlabModules[key]);
    const block = document.querySelector('.attnlab-explorer script');
    const model = page.loneModel(JSON.parse(block.textContent));
    const heard = new Set(), host = document.createElement('div'), seen = [];
    let told = 0;
    model.on = name => heard.add(name);
    model.off = name => heard.delete(name);
    model.set = () => { told += 1; };
    document.body.append(host);
    const end = start.mount(key, model, host);
    const cell = host.shadowRoot.querySelector('button.cell');
    for (const act of [() => {}, end]) {
        act();
        cell.click();
        seen.push([heard.size > 5, told]);
    }
    return [...seen, host.shadowRoot.childNodes.length];
}"""


def test_nothing_is_left_when_an_explorer_is_taken_away(open_cards):
    [card] = open_cards([MaskExplorer(ask=False)])
    keys = [bundle.key_of(name) for name in ("base", "masks", "page")]
    assert card.page.evaluate(MOUNT, keys) == [[True, 1], [False, 1], 0]


# Mount an explorer before a slow kernel, and move it. Return whether its picture is dimmed at
# once; when it is, whether the kernel is not yet called silent; and whether the picture is still
# dimmed after a further move, and after an answer.
SLOW = """async keys => {
    const [start, key, page] = keys.map(key => attnlabModules[key]);
    const stored = JSON.parse(document.querySelector('.attnlab-explorer script').textContent);
    const model = page.loneModel(stored), host = document.createElement('div');
    let answered = null;
    Object.assign(model, { alone: false, on: (name, act) => { answered = act; } });
    document.body.append(host);
    start.mount(key, model, host);
    const [cell, other, picture, note] = ['.cell', 'td + td .cell', '.picture', '.note'].map(one =>
        host.shadowRoot.querySelector(one));
    const dimmed = () => picture.classList.contains('stale');
    cell.click();
    const seen = [dimmed()];
    await new Promise(done => new MutationObserver(done).observe(picture, { attributes: true }));
    seen.push(note.hidden && note.parentNode.matches('.bar'));  // which stays in sight
    other.click();  // a further move does not show the old picture as if it were the new one
    seen.push(dimmed());
    model.set('answer', { ...stored.answer, state: Object.fromEntries(
        stored.data.state.map(name => [name, model.get(name)])) });
    answered();
    await null;
    return [...seen, dimmed()];
}"""


def test_a_picture_is_dimmed_soon_while_python_draws_the_next_one(open_cards):
    [card] = open_cards([MaskExplorer(function=lambda s, mask: s.softmax(-1) * mask)])
    keys = [bundle.key_of(name) for name in ("base", "masks", "page")]
    assert card.page.evaluate(SLOW, keys) == [False, True, True, False]


def test_texts_of_the_learner_are_texts(open_cards, tab):
    evil = ["</script>", "<!--<script>", "<b>x</b>", "${1}`\\", "</SCRIPT "]
    view = HeadView([torch.eye(5)[None, None]], evil, ask=False)
    [card] = open_cards([view])
    assert card.locator(".arcs button").all_inner_texts() == [word.strip() for word in evil]
    assert card.locator(".say").inner_text() == view.say()
    assert tab.problems == []


def test_a_state_that_cannot_be_shown_gets_a_sentence_and_the_picture(tab, tmp_path):
    html = ScalingExplorer(ask=False).to_html().replace('"d_k":16', '"d_k":"<b>"')
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
    assert asking.locator(".say").is_hidden()
    assert answered.locator(".picture").is_visible()
    asking.page.emulate_media(media="screen")


TOKENS = "the cat sat on the mat </script>".split()


def test_a_saved_file_works_by_keyboard_without_network(tab, tmp_path):
    weights = torch.randn(2, 3, 7, 7, generator=torch.Generator().manual_seed(0)).softmax(-1)
    view = HeadView(list(weights[:, None]), TOKENS)
    view.save(tmp_path / "heads.html")
    card = tab.open(tmp_path / "heads.html").locator(".card")
    card.get_by_role("radio").first.focus()
    card.page.keyboard.press("ArrowRight")  # the other layer
    for name, key in (("head 2", "Enter"), ("mat (5)", "Space")):
        card.get_by_role("button", name=name).press(key)
    view.layer, view.head, view.word = 1, 2, 5
    card.locator("summary").press("Enter")
    assert card.locator(".say").inner_text() == view.say()
    assert card.locator("pre").inner_text() == "weights[1][0, 2, 5]  # layer 1, head 2, mat"
    assert tab.problems == []


def test_in_cross_attention_lines_lead_from_the_word_that_asks_to_the_keys(open_cards, tab):
    weights = torch.zeros(1, 1, 3, 2)
    weights[0, 0] = torch.tensor([[1, 0], [0.25, 0.75], [0, 1.0]])
    view = HeadView(weights, ["a", "cat", "sat"], ["le", "chat"], word=1, ask=False)
    [card] = open_cards([view])
    assert card.locator(".arcs .keys span").all_inner_texts() == ["le", "chat"]
    ends = card.locator(".arcs .keys span, .arcs button[aria-pressed=true]")
    middles = ends.evaluate_all("all => all.map(one => one.offsetLeft + one.offsetWidth / 2)")
    paths = [path.get_attribute("d") for path in card.locator(".arc").all()]
    widths = [float(path.get_attribute("stroke-width")) for path in card.locator(".arc").all()]
    assert [path.split(",")[0] for path in paths] == [f"M{middles[2]:g}"] * 2
    assert [path.split(" ")[-1] for path in paths] == [f"{middle:g},0" for middle in middles[:2]]
    assert widths[1] / widths[0] == pytest.approx(3, abs=1e-3)
    card.get_by_role("button", name="sat (2)").click()
    assert card.locator(".arc").count() == 1
    view.word = 2
    assert card.locator(".say").inner_text() == view.say()
    assert tab.problems == []


# --- the output that carries the scripts ----------------------------------------------------------


@pytest.fixture
def outputs(monkeypatch):
    """Return explorers and what a notebook stores of them: the first carries what they share."""
    monkeypatch.setattr(Explorer, "_picture", lambda self: b"")
    monkeypatch.setattr(bundle, "_stored", set())
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    made = [ScalingExplorer(ask=False), MaskExplorer(ask=False), MaskExplorer(padding=1)]
    return made, [explorer._repr_mimebundle_()["text/html"] for explorer in made]


def said(page):
    """Return the sentences of the explorers that move; None for those that stand still."""
    return page.locator(".attnlab-explorer").evaluate_all(
        "all => all.map(one => one.shadowRoot?.querySelector('.say').textContent ?? null)"
    )


def test_explorers_stand_still_until_their_scripts_come_in_any_order(outputs, tab, tmp_path):
    made, pieces = outputs
    page = tab.show(tmp_path, *pieces[1:])
    assert said(page) == [None, None]
    for explorer, host in zip(made[1:], page.locator(".attnlab-explorer").all(), strict=True):
        assert host.locator("img").get_attribute("alt") == explorer.say()
        assert host.locator("p").first.inner_text() == explorer.say()
        assert "Run this cell" in host.inner_text()
    page = tab.show(tmp_path, *reversed(pieces))
    assert said(page) == [explorer.say() for explorer in reversed(made)]
    assert tab.problems == []
