"""Explorers in a real browser: in a page from a file without kernel, and in JupyterLab."""

import random

import pytest
import torch

from attnlab import explorers
from attnlab.attention import attention_weights
from attnlab.explorers import DivisorsExplorer, MaskExplorer, ScalingExplorer, _page
from tests.browser.pages import FilePage, pieces_of, shown_weights, written


def attnlab_weights(scores, mask):
    return attention_weights(scores, attn_mask=mask)


MASK_STATES = [
    {},
    {"mask": "none", "toggled": [(0, 3), (5, 5)]},
    {"mask": "window", "window": 2, "padding": [2]},
    {"padding": [0]},
    {"padding": [0, 1], "fill": "-1e9"},
    {"padding": [0], "fill": "attnlab", "toggled": [(4, 5)]},
    {"function": attnlab_weights, "padding": [0]},
    {"function": lambda scores, mask: scores.softmax(-1), "padding": [0]},
    {"function": lambda scores, mask: scores.masked_fill(~mask, -torch.inf).exp()},
]

KINDS = [getattr(explorers, name) for name in explorers.__all__ if name != "Explorer"]
ASKING = [ScalingExplorer, MaskExplorer, DivisorsExplorer]
FIRST_STATE = len(KINDS)  # cards of MASK_STATES
FIRST_ASKING = FIRST_STATE + len(MASK_STATES)
SCALING, MASKS = KINDS.index(ScalingExplorer), KINDS.index(MaskExplorer)


SHOW = """places => {
    const hosts = [...document.querySelectorAll('.attnlab-explorer')];
    const chosen = places.map(place => hosts.at(place));
    for (const host of hosts)
        host.style.display = !chosen.length || chosen.includes(host) ? '' : 'none';
}"""
# Has anything changed that decides how a picture and its words look, since this was asked last?
HAS_CHANGED = """card => {
    const before = card.seen;
    card.seen = card.innerHTML;
    return card.seen !== before;
}"""


class Still(FilePage):
    """A page without a kernel: every explorer, masks in many states, some that ask first.

    What the cards say before anything moves is kept.
    """

    def __init__(self, browser, folder):
        super().__init__(browser)
        self.explorers = [kind(ask=False) for kind in KINDS]
        self.explorers += [MaskExplorer(ask=False, **state) for state in MASK_STATES]
        self.explorers += [kind() for kind in ASKING]
        self.show(folder, *pieces_of(self.explorers))
        self.first_words = self.page.locator(".attnlab-explorer .say").all_inner_texts()

    def card(self, index):
        return card_of(self.page, index)

    def only(self, *places):
        """Take all explorers out of sight but some, all but none if none is named.

        What a browser does for a step grows with what it has in sight.
        """
        self.page.evaluate(SHOW, places)

    def alone(self, index):
        """Return the card of an explorer, the only one in sight."""
        self.only(index)
        return self.card(index)


def card_of(page, index):
    """Return the card of an explorer of a page."""
    return page.locator(".attnlab-explorer").nth(index).locator(".card")


@pytest.fixture(scope="module")
def still(browser, tmp_path_factory):
    look = Still(browser, tmp_path_factory.mktemp("page"))
    yield look
    look.context.close()


# --- in a page without a kernel -------------------------------------------------------------------


# The controls in sight, each by its role and its name.
IN_SIGHT = """card => [...card.querySelectorAll(
    'input:not([type=text]), button:not(.cell, .projector)')]
    .filter(control => control.checkVisibility())
    .map(control => [{range: 'slider', radio: 'radio'}[control.type] ?? 'button',
        control.ariaLabel ?? (control.labels?.[0] ?? control).textContent.trim()])"""


# Use three controls in sight, chosen anyhow, by the script.
STIR = """(card, seed) => {
    for (let i = 0; i < 3; i += 1) {
        seed = seed * 16807 % 2147483647;
        const controls = [...card.querySelectorAll(
    'input:not([type=text]), button:not(.cell, .projector)')]
            .filter(control => control.checkVisibility());
        const control = controls[seed % controls.length];
        control.focus();
        if (control.type === 'range') {
            control.value = control.value === control.min ? control.max : control.min;
            control.dispatchEvent(new Event('input'));
        } else if (control.closest('.plane')) {  // to be moved
            control.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowUp', bubbles: true}));
        } else control.click();
    }
}"""


def click(control, role):
    """Click a control where it stands, which hits what lies over it."""
    box = control.bounding_box()
    share = 0.8 if role == "slider" else 0.5
    control.click(position={"x": box["width"] * share, "y": box["height"] / 2}, force=True)


def press(control, role):
    """Use a control by keys; arrows go round among radio buttons, and choose."""
    if role == "radio":
        group = control.locator("xpath=ancestor::*[@role='radiogroup']")
        group.locator("input:checked").press("ArrowRight")
    elif role == "slider":
        at_the_end = control.evaluate("slider => slider.value === slider.min")
        control.press("ArrowRight" if at_the_end else "ArrowLeft")
    else:
        control.press("Enter")


def changes(card, use, one):
    """Use a control, if need be again after others, until it changes the picture.

    A radio button may be on already, and a button to put things back may find them in place.
    """
    role, name = one
    control = card.get_by_role(role, name=name, exact=True).first
    for attempt in range(60):
        if attempt:
            card.evaluate(STIR, 2 * attempt + 1)
        card.evaluate(HAS_CHANGED)
        if control.is_visible():
            use(control, role)
        if card.evaluate(HAS_CHANGED):
            return True
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_every_control_changes_the_picture(still, kind):
    """Each control by a click, and one of each role by keys."""
    card, used = still.alone(KINDS.index(kind)), []
    for _ in range(2):  # some are in sight only after others have been used
        for one in sorted({*map(tuple, card.evaluate(IN_SIGHT))} - set(used)):
            assert changes(card, click, one), one
            used.append(one)
    assert len(used) >= 3
    still.page.mouse.move(0, 0)  # what comes to lie under a resting pointer is previewed, later
    for role in {role for role, _ in used}:
        one = next(one for one in used if one[0] == role)
        assert changes(card, press, one), one
    assert not card.evaluate(HAS_CHANGED)


@pytest.mark.parametrize("kind", KINDS)
def test_the_moving_picture_begins_with_the_sentence_of_the_still_one(still, kind):
    index = KINDS.index(kind)
    assert still.first_words[index] == still.explorers[index].say()


def test_cells_are_clicked_and_walked_with_arrows(still):
    card, page = still.alone(MASKS), still.page
    cells = card.locator("button.cell")
    cells.nth(1).click()
    assert "may attend" in cells.nth(1).get_attribute("aria-label")
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    assert "blocked" in cells.nth(12).get_attribute("aria-label")
    assert "“sat”, key “The”: blocked" in card.locator(".detail").inner_text()
    assert card.locator("button.cell[tabindex='0']").count() == 1
    card.get_by_role("button", name="Reset").click()


def test_pointing_at_the_curve_previews_and_a_click_keeps(still):
    card = still.alone(SCALING)
    curve, say = card.locator("svg.pickable"), card.locator(".say")
    box = curve.bounding_box()
    place = {"x": box["width"] * 0.15, "y": box["height"] / 2}

    def shown_and_kept():
        return say.inner_text().partition(":")[0], card.locator("output").inner_text()

    click(card.get_by_role("button", name="d_k = 1024"), "button")
    curve.hover(position=place)
    assert shown_and_kept() == ("d_k = 1", "1024")
    card.locator("h3").hover()
    assert shown_and_kept() == ("d_k = 1024", "1024")
    curve.click(position=place)
    card.locator("h3").hover()
    assert shown_and_kept() == ("d_k = 1", "1")
    curve.hover(position={"x": box["width"] * 0.8, "y": box["height"] / 2})
    card.locator("input").press("ArrowRight")  # the keyboard wins over a pointer at rest
    assert shown_and_kept() == ("d_k = 2", "2")


@pytest.mark.parametrize("index", range(len(MASK_STATES)))
def test_the_moving_picture_says_and_shows_what_python_does(still, index):
    explorer, card = still.explorers[FIRST_STATE + index], still.alone(FIRST_STATE + index)
    assert card.locator(".say").inner_text() == explorer.say()
    wanted = explorer._shown().weights.flatten()
    torch.testing.assert_close(shown_weights(card), wanted, atol=0.0051, rtol=0, equal_nan=True)
    looks = card.locator("button.cell").evaluate_all("all => all.map(e => e.classList[1] ?? '')")
    cells = zip(explorer._shown().mask.flatten().tolist(), wanted.tolist(), strict=True)
    kinds = ["" if may else "leak" if weight else "blocked" for may, weight in cells]
    nan = ["nan" if weight != weight else kind for weight, kind in zip(wanted, kinds, strict=True)]
    assert [look if look != "zero" else "" for look in looks] == nan
    wrong = card.locator("td.sum").evaluate_all(
        "all => all.map(one => [one.textContent.includes('✗'), !!one.querySelector('.bad')])"
    )
    assert [mark for mark, _ in wrong] == [look for _, look in wrong]
    assert (card.locator(".say.bad").count() == 1) == any(mark for mark, _ in wrong)
    pressed = card.locator(".chips [aria-pressed=true]").all_inner_texts()
    assert pressed == [explorer.tokens[place] for place in explorer.padding]


@pytest.mark.parametrize("index", range(6))
def test_the_lines_of_pytorch_give_the_weights(still, index):
    explorer = still.explorers[FIRST_STATE + index]
    card = still.alone(FIRST_STATE + index)
    names = written(card, n=len(explorer.tokens), scores=explorer.scores)
    assert torch.equal(names["mask"], explorer.result.mask)
    torch.testing.assert_close(
        names["weights"], explorer.result.weights, atol=1e-6, rtol=0, equal_nan=True
    )


def test_without_python_the_browser_draws_and_says_so(still):
    card = still.alone(FIRST_STATE + 7)
    assert card.locator(".note").is_hidden()
    card.get_by_role("button", name="cat", exact=True).click()
    assert "the browser draws this" in card.locator(".note").inner_text()
    card.get_by_role("button", name="cat", exact=True).click()
    assert card.locator(".note").is_hidden()


def test_a_prediction_comes_first_and_is_settled(still):
    card = still.alone(FIRST_ASKING)
    gate = card.get_by_role("group", name="Predict first")
    assert card.locator(".picture").evaluate("e => e.inert && getComputedStyle(e).filter != 'none'")
    gate.get_by_role("button", name="flatter").press("Enter")
    assert "You predicted: flatter" in gate.inner_text()
    assert not card.locator(".picture").evaluate("e => e.inert")

    card = still.alone(FIRST_ASKING + 1)
    gate = card.get_by_role("group", name="Predict first")
    gate.get_by_role("button", name="“The” (row 0)").click()
    card.get_by_role("button", name="The", exact=True).click()
    assert "✓ You predicted “The” (row 0)" in gate.inner_text()


@pytest.mark.parametrize(
    ("module", "state", "settled"),
    [
        ("masks", {"mask": "causal", "padding": [0, 2]}, True),
        ("masks", {"mask": "causal", "padding": [2]}, False),
        ("masks", {"mask": "window", "padding": [0]}, False),
        ("order", {"order": [0, 2, 1], "positions": False}, True),
        ("order", {"order": [0, 2, 1], "positions": True}, False),
        ("order", {"order": [0, 1, 2], "positions": False}, False),
        ("bank", {"sentence": "both", "sharpness": 1, "moved": [["river", -3, -1.25]]}, True),
        ("bank", {"sentence": "both", "sharpness": 1, "moved": [["river", -3, 1.25]]}, False),
        ("bank", {"sentence": "both", "sharpness": 1, "moved": [["river", 0, -1.25]]}, False),
        ("bank", {"sentence": "both", "sharpness": 0, "moved": [["river", -3, -1.25]]}, False),
        ("bank", {"sentence": "both", "sharpness": 1, "moved": []}, False),
    ],
)
def test_a_prediction_is_settled_where_its_answer_is_seen(still, module, state, settled):
    call = "([key, state]) => attnlabModules[key].settled(state)"
    assert still.page.evaluate(call, [_page.key_of(module), state]) is settled


# values of what has no control, as an address may hold them: those that can be shown, and nonsense
FROM_ELSEWHERE = {
    "moved": (
        [[], [["river", -3, 1.25]]],
        [[["mud", 0, 0]], [["toString", 0, 0]], [["river", 9, 0]], [["river", 0]], [5], "x", 5],
    ),
    "order": (
        [[1, 0, 2, 3, 4, 5]],
        [[0, 0, 1, 2, 3, 4], [0, 1], [0, 1, 2, 3, 4, 9], [0, 1, 2, 3, 4, 5, 5], "012345"],
    ),
    "padding": ([[], [0, 2]], [[99], [-1], [0.5], ["0"], "0", 5, None]),
    "query": ([[0.7, -1.5]], [[9, 0], [0], [None, 1], ["1", 1], "12", None]),
    "sentence": ([], ["Unknown.", 5, None]),
    "toggled": ([[], [[0, 3]]], [[[0]], [[0, 99]], [0], "0", None]),
    "word": ([0, 23], [-1, 24, 1.5, "1", None]),
}
FITTING = """([host, values]) => {
    const fits = attnlabModules[host.dataset.explorer].fits ?? {};
    const {data} = JSON.parse(host.querySelector('script[type="application/json"]').textContent);
    const taken = (name, value) => {
        try { return Boolean(fits[name](value, data)); } catch { return false; }
    };
    const controlled = data.controls.map(({name}) => name);
    return {
        free: data.state.filter(name => !['ask', 'large', ...controlled].includes(name)),
        taken: Object.fromEntries(Object.keys(fits).map(name =>
            [name, values[name].map(list => list.filter(value => taken(name, value)))])),
    };
}"""


@pytest.mark.parametrize("index", range(len(KINDS)), ids=lambda index: KINDS[index].__name__)
def test_what_has_no_control_is_taken_from_elsewhere_only_if_it_can_be_shown(still, index):
    host = still.page.locator(".attnlab-explorer").nth(index).element_handle()
    values = {name: [[*good], bad] for name, (good, bad) in FROM_ELSEWHERE.items()}
    values["sentence"][0] += [getattr(still.explorers[index], "sentence", None)]
    seen = still.page.evaluate(FITTING, [host, values])
    assert sorted(seen["taken"]) == seen["free"]
    assert seen["taken"] == {name: [values[name][0], []] for name in seen["free"]}


def test_a_page_prints_the_question_and_not_what_it_veils(still):
    card = still.alone(FIRST_ASKING + 2)
    still.page.emulate_media(media="print")
    gate = card.get_by_role("group", name="Predict first")
    assert "What if we divide by d_k itself" in gate.inner_text()
    shown = gate.evaluate("e => getComputedStyle(e, '::after').content")
    assert all(option in shown for option in ("one key again", "all keys alike"))
    for part in (".bar", ".say", ".picture", ".gate button"):
        assert card.locator(part).first.is_hidden(), part
    answered = still.alone(SCALING)
    assert answered.locator(".picture").is_visible()
    assert answered.locator(".picture").evaluate("e => getComputedStyle(e).filter") == "none"
    still.page.emulate_media(media="screen")


# --- the mathematics that ships, against torch ----------------------------------------------------


def random_case(rng):
    n = rng.randint(1, 6)
    special = [float("inf"), float("-inf"), float("nan"), 1e30, -1e30, 3e38, 0.0, 88.0, -745.0]
    spread = rng.choice([0.1, 1, 30, 1000])
    odd = rng.random() < 0.3
    score = lambda: rng.choice(special) if odd and rng.random() < 0.3 else rng.gauss(0, spread)  # noqa: E731
    pick = lambda count: [rng.randrange(n) for _ in range(rng.randint(0, count))]  # noqa: E731
    toggled = sorted({(i, j) for i, j in zip(pick(5), pick(5), strict=False)})
    state = {
        "mask": rng.choice(["none", "causal", "window"]),
        "window": rng.randint(1, 6),
        "padding": sorted(set(pick(n))),
        "toggled": toggled,
        "fill": rng.choice(["-inf", "-1e9", "attnlab"]),
    }
    return n, state, [[score() for _ in range(n)] for _ in range(n)]


def torch_masked(n, state, scores):
    """Return mask and weights by torch alone, written apart from the package."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    mask = torch.ones(n, n, dtype=torch.bool)
    if state["mask"] != "none":
        mask = i >= j
    if state["mask"] == "window":
        mask = mask & (i - j < state["window"])
    mask[:, state["padding"]] = False
    for cell in state["toggled"]:
        mask[cell] = ~mask[cell]
    fill = -1e9 if state["fill"] == "-1e9" else -torch.inf
    weights = torch.tensor(scores, dtype=torch.float64).masked_fill(~mask, fill).softmax(-1)
    if state["fill"] == "attnlab":
        weights[~mask.any(-1)] = 0
    return mask, weights


ASK_MATHS = """([key, cases]) => {
    const {allowedCells, maskedWeights, dot} = attnlabModules[key];
    return cases.map(([n, state, scores]) => {
        const numbers = scores.map(row => row.map(Number));
        const allowed = allowedCells(state, n);
        return [allowed, numbers.map((row, i) =>
            maskedWeights(row, allowed[i], state.fill).map(String)),
            String(dot(numbers[0], numbers[n - 1]))];
    });
}"""
WORDS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def differences(page, count):
    """Return how far the browser's weights and dot products are from torch's, case by case."""
    rng = random.Random(0)
    cases = [random_case(rng) for _ in range(count)]
    words = [
        [n, state, [[WORDS.get(str(x), repr(x)) for x in row] for row in scores]]
        for n, state, scores in cases
    ]
    answers = page.evaluate(ASK_MATHS, [_page.key_of("maths"), words])
    found, nan_rows = [], 0
    for (n, state, scores), (allowed, weights, product) in zip(cases, answers, strict=True):
        mask, wanted = torch_masked(n, state, scores)
        assert torch.equal(torch.tensor(allowed), mask)
        got = torch.tensor([[float(x) for x in row] for row in weights], dtype=torch.float64)
        assert torch.equal(got.isnan(), wanted.isnan()), (state, scores)
        found.append((got - wanted).nan_to_num().abs().max().item())
        nan_rows += int(wanted.isnan().all(-1).sum())
        ends = torch.tensor([scores[0], scores[-1]], dtype=torch.float64)
        torch.testing.assert_close(
            torch.tensor(float(product), dtype=torch.float64),
            (ends[0] * ends[1]).sum(),
            rtol=1e-5,
            atol=1e-6,
            equal_nan=True,
        )
    return found, nan_rows


def test_the_mathematics_of_the_browser_is_that_of_torch(still):
    found, nan_rows = differences(still.page, 600)
    assert max(found) < 1e-6
    assert nan_rows > 100


# --- beginnings and ends --------------------------------------------------------------------------


# A script on an explorer: its model, and a host in which it can be mounted.
ON_A_MODEL = """async ([start, key, page, place]) => {{
    const block = document.querySelectorAll('.attnlab-explorer script')[place];
    const model = attnlabModules[page].loneModel(JSON.parse(block.textContent));
    const {{get, set}} = model, callbacks = {{}}, host = document.createElement('div');
    model.on = (name, callback) => {{ callbacks[name] = callback; }};
    model.off = name => delete callbacks[name];
    document.body.append(host);
    const mount = () => attnlabModules[start].mount(attnlabModules[key], model, host);
    const cell = place => host.shadowRoot.querySelectorAll('button.cell')[place];
    {script}
}}"""


def on_a_model(page, place, script):
    """Run a script on the model of the explorer of masks in a place; return what it returns."""
    keys = map(_page.key_of, ("base", "masks", "page"))
    return page.evaluate(ON_A_MODEL.format(script=script), [*keys, place])


def test_nothing_is_left_when_an_explorer_is_taken_away(still):
    """Neither listeners outside the explorer, nor callbacks of the model, nor answers to events."""
    left = on_a_model(
        still.page,
        MASKS,
        """let sent = 0;
            model.set = () => { sent += 1; };
            const outside = [], add = EventTarget.prototype.addEventListener;
            EventTarget.prototype.addEventListener = function (...rest) {
                if ([window, document, document.body, document.documentElement].includes(this))
                    outside.push(rest[0]);
                return add.apply(this, rest);
            };
            const counts = [], count = () => counts.push([Object.keys(callbacks).length, sent]);
            for (let i = 0; i < 3; i += 1) {
                const end = mount(), first = cell(0);
                first.click();
                count();
                end();
                first.click();
                count();
            }
            EventTarget.prototype.addEventListener = add;
            host.remove();
            return {outside, counts, children: host.shadowRoot.childNodes.length};""",
    )
    assert left["outside"] == []
    assert left["children"] == 0
    on, sent = zip(*left["counts"], strict=True)
    assert on[0] == on[2] == on[4] > 5
    assert on[1] == on[3] == on[5] == 0
    assert sent == (1, 1, 2, 2, 3, 3)


def test_a_step_draws_once_and_so_does_what_somebody_else_sets(still):
    draws = on_a_model(
        still.page,
        MASKS,
        """let draws = 0;
            model.get = name => { draws += name === 'answer'; return get(name); };
            model.set = (name, value) => { set(name, value); callbacks[`change:${name}`](); };
            const end = mount(), counts = [];
            for (const act of [() => cell(0).click(),
                () => { model.set('mask', 'window'); model.set('window', 2); }]) {
                draws = 0;
                act();
                await new Promise(requestAnimationFrame);
                counts.push(draws);
            }
            end();
            host.remove();
            return counts;""",
    )
    assert draws == [1, 1]


def test_a_step_that_fails_elsewhere_leaves_the_explorer_following(tab, tmp_path):
    """Somebody else's listener raises at a step; what is set later is drawn all the same."""
    tab.start_anew()
    page = tab.show(tmp_path, *pieces_of([MaskExplorer(ask=False)]))
    shown = on_a_model(
        page,
        0,
        """model.set = () => { throw new Error('not mine'); };
            mount();
            cell(0).click();
            const before = cell(1).ariaLabel;
            set('mask', 'none');
            callbacks['change:mask']();
            await new Promise(requestAnimationFrame);
            return [before, cell(1).ariaLabel];""",
    )
    assert ["blocked" in label for label in shown] == [True, False]
    assert tab.problems == ["not mine"]


def test_texts_of_the_learner_are_texts(tab, tmp_path):
    tab.start_anew()
    evil = ["</script>", "<!--<script>", "<b>x</b>", "${1}`\\", "</SCRIPT "]
    explorer = MaskExplorer(evil, ask=False, padding=[0])
    card = card_of(tab.show(tmp_path, *pieces_of([explorer])), 0)
    assert card.locator("tbody th").all_inner_texts() == [word.strip() for word in evil]
    assert card.locator(".say").inner_text() == explorer.say()
    assert tab.problems == []


@pytest.fixture(scope="module")
def html():
    return ScalingExplorer(ask=False).to_html()


@pytest.mark.parametrize("bad", ['"d_k":3', '"d_k":null', '"d_k":"<b>"'])
def test_a_state_that_cannot_be_shown_gets_a_sentence_and_the_picture(tab, tmp_path, bad, html):
    page = tab.show(tmp_path, html.replace('"d_k":4', bad))
    assert "cannot show its state" in card_of(page, 0).get_by_role("alert").inner_text()
    assert page.locator(".attnlab-explorer img").is_visible()


def test_the_page_was_quiet_and_alone(still):
    assert still.problems == []
    assert still.outside == []
