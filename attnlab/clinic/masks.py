"""What became of masks: of those that are given, of the causal switch, and of later tokens."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic import hypotheses as hy
from attnlab.clinic._results import Results
from attnlab.clinic.forms import Form, pattern, single
from attnlab.clinic.hypotheses import DENSE, SURE, Recipe, Sample, explain, measured_masking
from attnlab.clinic.names import Argument
from attnlab.clinic.observe import Core, observe
from attnlab.clinic.subject import Subject

LOW = -1000.0  # scores below it are above no fill of some hundreds
SUBTRACTED = hy.Way(
    "mask-inverted",
    "{The_mask} is subtracted from the scores instead of added: keys for which it holds -3 gain, "
    "and take {taken} of a query's weight.",
    lambda scores, allowed, softmax: softmax(scores + 3.0 * ~allowed),
    "add it: scores + bias.",
)
MEANINGS = {
    "allowed": 'True means “may attend” (mask="allowed")',
    "blocked": 'True means “blocked” (mask="blocked")',
    "additive": 'it is added to the scores and holds 0 and minus infinity (mask="additive")',
}


class Try(NamedTuple):
    """What came of a mask in one form."""

    form: Form
    given: Tensor
    place: int  # of the attention that it changes
    core: Core
    base: Recipe  # without a mask
    recipe: Recipe  # with what was done with the mask

    @property
    def slips(self) -> bool:
        """Whether something is wrong that is not wrong without a mask."""
        return bool(self.recipe.masking.cause) or self.recipe.softmax is not self.base.softmax


def examine_masks(subject: Subject, found: list[Recipe | None], results: Results) -> None:
    """Give it every mask that it takes, alone, in every shape and kind."""
    right: dict[str, Form] = {}
    for mask in subject.masks:
        tries = list(_tries(subject, mask, found))
        clean = next((one for one in tries if not one.slips), None)
        if clean is not None:
            right[mask.name] = clean.form
            subject.worked[mask.name] = clean.given
            returned([clean.core], results)
            _padding(subject, mask, clean, results)
            _second(subject, mask, clean, results)
            _hold(subject, mask, clean, results)
            _empty_row(subject, mask, clean, results)
            size = _size(clean.core.sample)
            few = single(clean.form, *size)
            masks = {mask.name: clean.form(few, subject.dtype)}
            blocked = f"keys that {mask.name} blocks"
            strain(subject, clean.base, clean.place, blocked, results, masks=masks, allowed=few)
        elif tries:
            _accuse(subject, mask, found, tries, results)
        else:
            said, _ = subject.said(mask)
            meaning = f", in which {MEANINGS[said]}," if said else ""
            results.unexamined(
                f"No mask that was tried as {mask.name}{meaning} works: "
                f"{subject.outcome.trouble or 'no output comes back'}.",
                remedy="Pass mask= to say what it holds, or call= with an adapter.",
            )
    if len(right) == 2 and not subject.large:
        _both(subject, found, right, results)
    told = subject.options.mask in ("blocked", "additive")
    if told and not subject.masks and subject.options.call is None:
        results.unexamined(
            "It was said what its mask means, but no mask was found.",
            remedy="Pass call= with an adapter that gives it.",
        )


def _tries(subject: Subject, mask: Argument, found: list[Recipe | None]) -> list[Try]:
    """Return what came of every form that works, up to the first that is right."""
    tries: list[Try] = []
    before, subject.form = subject.form, None
    for turn in range(2):
        sizes = _sizes(subject)
        plain = observe(subject, parts=subject.inputs(N=3))
        for form, size in itertools.product(subject.forms(mask), sizes):
            cores = given(subject, mask.name, form, size)
            place = _changed(plain, cores, found)
            if subject.caller.out_of_time:
                break
            base = None if place is None else found[place] or as_seen(plain[place])
            if base is None:
                continue
            recipe = judged(base, cores[place])
            shown = form(pattern(form, *size), subject.dtype)
            tries.append(Try(form, shown, place, cores[place], base, recipe))
            if not tries[-1].slips:
                break
        if tries or turn or subject.alone or subject.demand.get("L"):
            break
        subject.demand, subject.memory = {"L": "S", **subject.demand}, subject.length
    subject.form = before
    return tries


def _sizes(subject: Subject) -> list[tuple[int, int, int, int]]:
    """Return the sizes (N, H, L, S) that a mask may have."""
    parts = subject.inputs(N=3)
    query, key = parts["query"], parts["key"]
    N = len(query) if query.ndim > 2 else 1
    H = query.shape[1] if query.ndim == 4 else (subject.heads() or 1) if subject.followed else 1
    L, S = query.shape[-2], key.shape[-2]
    several = [(L, S), (L, L), (S, S)] if subject.followed and L != S else [(L, S)]
    return [(N, H, *one) for one in several]


def _size(sample: Sample) -> tuple[int, ...]:
    return tuple(getattr(sample.sizes, name) for name in "NHLS")


def given(
    subject: Subject,
    name: str,
    form: Form,
    size: tuple,
    *,
    other: tuple[str, Form] | None = None,
    seed: int = 3,
) -> list[Core]:
    """Observe it with a mask, and with another beside it."""
    allowed = pattern(form, *size, seed=seed)
    masks = {name: form(allowed, subject.dtype)}
    if other is not None:
        beside = pattern(other[1], *size, seed=4)
        masks[other[0]] = other[1](beside, subject.dtype)
        allowed = allowed & beside
    if not subject.followed and subject.ndim == 2 and form.ndim > 2:
        return []
    return observe(subject, masks=masks, allowed=allowed)


def _changed(plain: list[Core], cores: list[Core], found: list) -> int | None:
    """Return the place of the first attention that a mask changes, or of the first that it fits."""
    if not cores or (len(found) > 1 and len(cores) != len(found)):
        return None
    fits = [place for place, core in enumerate(cores) if core.sample.allowed is not None]
    for place, (one, other) in enumerate(zip(plain, cores, strict=False)):
        if one.weights.shape == other.weights.shape and not torch.equal(one.weights, other.weights):
            return place if place in fits else None
    return next(iter(fits), None)


def as_seen(plain: Core) -> Recipe | None:
    """Return a recipe of scores without a name: the logarithms of the weights without a mask."""
    weights = plain.weights
    if not (weights > 0).all() or ((weights.sum(-1) - 1).abs() > SURE).any():
        return None
    product = hy.Way(None, "", lambda query, key: weights.log())
    return Recipe(product=product, scale=hy.Way(None, "", lambda size: 1.0))


def judged(recipe: Recipe, core: Core) -> Recipe:
    """Return the recipe with what was done with the mask, named or measured."""
    sample, weights = core.sample, core.weights
    found = explain([sample], recipe, ("masking", "softmax"))
    if found is not None:
        return found
    alone = replace(recipe, order=DENSE)
    if recipe.order.cause is None and (found := explain([sample], alone, ("masking",))):
        return found  # a mask takes the place of its own order, as in many libraries
    scores, order = recipe.scores(sample), recipe.order.compute(*weights.shape[-2:])
    allowed = sample.allowed.expand_as(weights)
    if order is not None and order.dtype != torch.bool:
        order, scores = order.isfinite(), scores + order
    if order is not None:
        allowed, scores = allowed & order, scores.masked_fill(~order, -torch.inf)
        if not allowed.any(dim=-1).all():
            return recipe  # rows without a key may hold anything: nothing can be measured
    return replace(recipe, masking=measured_masking(scores, weights, allowed))


def _hold(subject: Subject, mask: Argument, one: Try, results: Results) -> None:
    results.held("blocked-keys", f"a blocked key gets no weight and changes nothing ({mask.name})")
    meaning = {"b": "blocked", "a": "additive"}.get(one.form.kind[0], "allowed")
    meaning = "allowed" if one.form.kind == "bool" else meaning
    by = subject.said(mask)[1]
    if one.form.letters == "(N,)":
        return
    words = MEANINGS[meaning]
    if by in ("words", "name", "torch"):
        results.note(
            "mask", f"The mask {mask.name} is read as {by} say{'s' * (by != 'words')}: {words}."
        )


def _accuse(
    subject: Subject, mask: Argument, found: list, tries: list[Try], results: Results
) -> None:
    """Report what is wrong with a mask, or ask what it means."""
    acting = [one for one in tries if one.recipe.masking.cause != "mask-ignored"]
    one = (acting or tries)[0]
    cause, (said, by) = one.recipe.masking.cause, subject.said(mask)
    lengths = one.form.letters == "(N,)"
    open_ = by in ("", "name") and not lengths
    if (open_ and cause == "mask-inverted") or any(
        open_ and other.recipe.masking.cause == "mask-inverted" for other in acting
    ):
        usual, other = ("blocked", "allowed") if said == "blocked" else ("allowed", "blocked")
        results.ask(
            "mask-inverted",
            f"In {mask.name} True may mean “may attend”, as in F.scaled_dot_product_attention, or "
            "“blocked”, as in nn.MultiheadAttention. Nothing says which; it computes attention if "
            f"{MEANINGS[other]}.",
            f'Pass mask="{other}" if that is what you mean; with mask="{usual}" it is a finding.',
        )
        return
    if open_ and _adds(subject, mask, found):
        results.ask(
            "mask-added",
            f"{mask.name} is added to the scores. It computes attention if it holds 0 and minus "
            "infinity; a mask of True and False, or of 0 and 1, would only move scores by 1.",
            'Pass mask="additive" if it holds 0 and minus infinity; with mask="allowed" it is a '
            "finding.",
        )
        return
    if cause == "mask-inverted" and lengths:
        results.found(
            "mask-inverted",
            "The lengths are used the wrong way around: it sees the padding and not the tokens.",
            advice="positions < lengths[:, None] may be seen.",
        )
        return
    recipe, core = _subtracted(subject, mask, one) or (one.recipe, one.core)
    hy.report(
        Recipe(masking=recipe.masking, softmax=recipe.softmax),
        [core.sample],
        results,
        weights=core.weights,
        mask=f"the mask {mask.name}",
    )


def _subtracted(subject: Subject, mask: Argument, one: Try) -> tuple[Recipe, Core] | None:
    """Return what shows that an additive mask is subtracted: minus infinity only gives NaN."""
    if one.recipe.masking.cause != "nan" or one.form.kind != "additive":
        return None
    masks, allowed = {mask.name: one.given.clamp_min(-3)}, one.core.sample.allowed
    recipe = replace(one.base, masking=SUBTRACTED)
    cores = observe(subject, masks=masks, allowed=allowed)[one.place :]
    return (recipe, cores[0]) if cores and recipe.gives(cores[0].sample) else None


def _padding(subject: Subject, mask: Argument, one: Try, results: Results) -> None:
    """Change the tokens that a mask blocks: the outputs of the others must not move."""
    adapted = subject.options.call is not None
    if adapted or not (subject.alone and subject.followed and one.form.per_key):
        return
    parts = subject.inputs(N=3)
    keep = one.core.sample.allowed[:, 0, 0]
    x = parts["query"]
    moved = torch.where(keep[..., None], x, subject.inputs(seed=8, N=3)["query"])
    replies = [
        subject(dict.fromkeys(parts, each), masks={mask.name: one.given}) for each in (x, moved)
    ]
    if None in replies or replies[0].output.shape[:2] != keep.shape:
        return
    apart = (replies[0].output - replies[1].output).abs().amax(dim=-1)[keep].max()
    if apart > SURE * replies[0].output.abs().max():
        results.found(
            "mask-leak",
            f"Tokens that {mask.name} blocks move the outputs of others by "
            f"up to {apart:.2g}, though no query looks at them.",
            advice="keep padding out of every step, such as a mean over tokens.",
        )


def _second(subject: Subject, mask: Argument, one: Try, results: Results) -> None:
    """Give another mask of the same shape: the first must not stay; nor must a causal order go."""
    if subject.large:
        return
    cores = given(subject, mask.name, one.form, _size(one.core.sample), seed=4)
    if len(cores) <= one.place or cores[one.place].sample.allowed is None:
        return
    if judged(one.base, cores[one.place]).masking.cause:
        results.found(
            "remembers",
            f"A second mask {mask.name} is not used as the first was: something of it is kept.",
        )
    elif one.recipe.order is DENSE is not one.base.order:
        words = f"Where {mask.name} is given, it takes the place of the causal mask: queries see "
        if subject.options.causal:
            results.ask("causal-leak", f"{words}later keys that it allows.")
        else:
            results.note("causal", f"{words}later keys that it allows.")


def _adds(subject: Subject, mask: Argument, found: list[Recipe | None]) -> bool:
    """Return whether a mask of 0 and minus infinity is used as it should be."""
    for form in subject.forms(mask):
        cores = given(subject, mask.name, form._replace(kind="additive"), _sizes(subject)[0])
        for core, recipe in zip(cores, found, strict=False):
            if recipe is not None and judged(recipe, core).masking.cause is None:
                return True
    return False


def _both(
    subject: Subject, found: list[Recipe | None], right: dict[str, Form], results: Results
) -> None:
    """Give two masks at once: neither may be lost."""
    (one, form), (other, beside) = right.items()
    cores = given(subject, one, form, _sizes(subject)[0], other=(other, beside))
    if len(cores) != 1 or found[0] is None or cores[0].sample.allowed is None:
        return
    sample = cores[0].sample
    if found[0].gives(sample):
        results.held("both-masks", f"{one} and {other} work together")
        return
    size = _size(sample)
    for kept, lost, allowed in (
        (one, other, pattern(form, *size)),
        (other, one, pattern(beside, *size, seed=4)),
    ):
        if found[0].gives(sample._replace(allowed=allowed.expand_as(cores[0].weights))):
            sentence = f"Together with {kept}, {lost} is lost: keys that it blocks are seen again."
            results.found("mask-ignored", sentence)


def _empty_row(subject: Subject, mask: Argument, one: Try, results: Results) -> None:
    """Block every key: a row without a key gives 0, as in torch."""
    if subject.followed or one.form.letters == "(N,)":
        return
    parts = subject.inputs(N=3)
    none = one.form.whole(parts["query"], parts["key"], subject.dtype, may=False)
    reply = subject(parts, masks={mask.name: none})
    if reply is None:
        return
    if not reply.output.isfinite().all():
        results.note("empty-row", "A row with no allowed key gives NaN.")
    elif reply.output.abs().max() < 1e-9:
        results.held("empty-row", "a query whose keys are all blocked gives 0")
    else:
        results.note("empty-row", "A row with no allowed key averages the values.")


def strain(
    subject: Subject, base: Recipe, place: int, blocked: str, results: Results, **given: object
) -> None:
    """Let all scores of some query fall below ``LOW``: a finite fill does not block them then."""
    if subject.large or subject.rough:
        return
    N = None if given.get("allowed") is None else 3
    for seed in range(8):
        factor = 1.0
        for _ in range(2):  # at ordinary scores, and with the lowest at twice that
            parts = subject.louder(factor, seed=seed, N=N)
            cores = observe(subject, parts=parts, **given)[place:]
            scores = base.scores(cores[0].sample) if cores else None
            if scores is None:
                return
            allowed = _allowed(base, cores[0].sample).expand_as(scores)
            best = scores.masked_fill(~allowed, -torch.inf).amax(dim=-1)
            lowest = float(best[allowed.any(dim=-1)].min())
            factor = (2 * LOW / min(lowest, -0.2 * float(scores.abs().max()))) ** 0.5
        if lowest < LOW:
            _tell_strained(cores[0].weights, allowed, lowest, blocked, results)
            return


def _allowed(recipe: Recipe, sample: Sample) -> Tensor:
    """Return which keys a query may see by its mask and by the order of its recipe."""
    size = sample.products.shape[-2:]
    own, order = sample.allowed, recipe.order.compute(*size)
    allowed = torch.ones(size, dtype=torch.bool) if own is None else own
    if order is None:
        return allowed
    return allowed & (order if order.dtype == torch.bool else order.isfinite())


def _tell_strained(
    weights: Tensor, allowed: Tensor, lowest: float, blocked: str, results: Results
) -> None:
    taken = weights.masked_fill(allowed, 0).sum(dim=-1)[allowed.any(dim=-1)]
    where = f"Where the best score of a query falls to {lowest:.0f}"
    if not taken.isfinite().all():
        results.note("large-scores", f"{where}, its output is NaN.")
    elif taken.max() > SURE:
        results.note(
            "mask-finite",
            f"{where}, {blocked} take up to {taken.max():.2g} of its weight: they were filled "
            "with a finite number, and -torch.inf is safe.",
        )


def returned(cores: list[Core], results: Results) -> None:
    """Compare the weights that come back with those that made the output."""
    used, reply = cores[0].weights, cores[0].reply
    if reply is None or len(reply.others) != 1 or results.findings:
        return
    weights = reply.others[0].detach().double()
    if weights.shape[-2:] != used.shape[-2:] or len({core.weights.shape for core in cores}) > 1:
        return
    if weights.ndim == 3 and used.shape[1] > 1 and len(weights) == len(used):
        shape = tuple(weights.shape)
        results.note("weights", f"It returns weights of shape {shape}: a mean over heads.")
        used = used.mean(dim=1, keepdim=True)
    if weights.numel() != used.numel():
        return
    weights, sums = weights.reshape(used.shape), weights.sum(-1)
    if weights.min() < -1e-6 and ((sums - 1).abs() > 1e-3).any():
        results.note("weights", "What it returns beside the output are not the weights.")
    elif hy.same(weights.float(), used):
        results.held("weights", "the returned weights are those that made the output")
    else:
        how = f"differ by up to {(weights - used).abs().max():.2g} from those that made the output"
        if hy.same(weights.float(), used.mT):
            how = "are transposed"
        table = hy.weights_table("Returned as weights:", weights, sums=True)
        results.found("weights-differ", f"The weights that it returns {how}.", table)


# --- causality ------------------------------------------------------------------------------------


def examine_switch(subject: Subject, recipe: Recipe | None, results: Results) -> None:
    """Switch its causal argument on."""
    if not subject.switches or recipe is None or subject.torchs:
        return
    before, subject.demand = subject.demand, {"L": "S", **subject.demand}
    changed = subject.memory
    subject.memory = subject.length
    cores = observe(subject, causal=True)[:1]
    subject.demand, subject.memory = before, changed
    name = subject.switches[0].name
    for core in cores:
        told = explain([core.sample], recipe, ("order", "hiding"))
        if told is None:
            later = float(core.weights.triu(1).abs().max())
            if later > SURE:
                results.found(
                    "causal-leak",
                    f"With {name}=True queries see later keys, which "
                    f"take up to {later:.2f} of a query's weight.",
                    hy.weights_table("Weights:", core.weights),
                )
        elif told.order is DENSE:
            results.found(
                "causal-missing",
                f"With {name}=True queries see later keys all the "
                "same: the switch changes nothing.",
                hy.weights_table("Weights:", core.weights),
            )
        elif told.order.cause or told.hiding.cause:
            hy.report(replace(told, scale=hy.RIGHT_SCALE), [core.sample], results)
        else:
            results.held("causal", f"with {name}=True no query sees a later key (causal)")
    if not cores:
        subject.given.discard(name)
    elif subject.worked and results.holds("causal"):
        _with_mask(subject, recipe, results)


def _with_mask(subject: Subject, recipe: Recipe, results: Results) -> None:
    """Switch it on and give a mask: neither may be lost."""
    name, given_ = next(iter(subject.worked.items()))
    switch = subject.switches[0].name
    for core in observe(subject, masks={name: given_}, causal=True)[:1]:
        hidden = core.weights.triu(1).abs().max()
        if hidden > SURE and recipe.order is DENSE:
            results.ask(
                "causal-leak",
                f"With {name} and {switch}=True together queries see later keys: the switch is "
                "lost where a mask is given.",
            )


def leaks(subject: Subject, meant: bool, results: Results) -> None:
    """Move the last token: of a causal layer no earlier output may move."""
    if not subject.alone or not meant:
        return
    parts = subject.inputs()
    moved = parts["query"].clone()
    moved[..., -1, :] += 3.0 * torch.randn(
        moved.shape[-1], generator=torch.Generator().manual_seed(5)
    ).to(moved)
    one, other = subject(parts), subject(dict.fromkeys(parts, moved))
    if one is None or other is None:
        return
    apart = (one.output - other.output).abs().amax(dim=-1)
    later = float((apart[..., :-1]).max() / one.output.abs().max())
    if later > SURE:
        results.found(
            "causal-leak",
            f"The last token moves earlier outputs, by up to {later:.2f} of their size.",
        )
    elif apart[..., -1].max() > 0:
        results.held("causal", "the last token moves no earlier output (causal)")
