"""Probes of the mask arguments of an attention function that is right without them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab._bounded import Unusable
from attnlab.clinic._hints import (
    says_additive,
    says_blocked,
    says_heads,
    says_true_is_padding,
    text_of,
)
from attnlab.clinic._results import Results
from attnlab.clinic.functions.calls import GENERAL, Attention, as_sample, relaxed
from attnlab.clinic.hypotheses import (
    CAUSAL,
    IGNORE,
    INVERT,
    SURE,
    Recipe,
    Sample,
    Sizes,
    masked_table,
    measured_weights,
    number_table,
    report,
    returned_weights,
    weights_table,
)
from attnlab.clinic.masks import (
    BOTH,
    FORMS,
    LENGTHS,
    NOT_AS_SAID,
    STILL_BLOCKED,
    Form,
    examine_both,
    judged,
    pattern,
)

EQUAL_HEADS = Sizes(N=3, H=3)
SLIPS_OF_THE_PEN = (NameError, AttributeError)  # no other mask would help
LIKE_A_MASK = (None, "mask-inverted", "mask-finite", "mask-transposed", "mask-multiplied")
LEVELS = (-20.0, -100.0, -1000.0)  # scores that ordinary large inputs can reach


class Trial(NamedTuple):
    """One accepted call with a mask, and what was done with it."""

    ndim: int
    form: Form
    sizes: Sizes
    sample: Sample
    judged: Recipe

    @property
    def mask(self) -> Tensor:
        """The mask as it was given."""
        return self.form(self.sample.allowed, self.sample.query.dtype)


class Masks:
    """The examination of all masks of one function; ``recipe`` is right and says the rest."""

    def __init__(self, attention: Attention, results: Results, recipe: Recipe) -> None:
        self.attention, self.results, self.recipe = attention, results, recipe
        self.free = attention.options.mask is None and attention.options.call is None

    # --- the first mask ---------------------------------------------------------------------------

    def examine(self) -> None:
        """Find out what the mask arguments do."""
        attention, results = self.attention, self.results
        if attention.takes.mask is None and attention.takes.lengths is None:
            self._look_for_one()
        if attention.takes.mask is None and attention.takes.lengths is None:
            return
        ndims = sorted(attention.ndims, key=lambda ndim: ndim == 2)  # a batch first
        trials = [trial for ndim in ndims if (trial := self._first_accepted(ndim))]
        if not trials:
            self._nothing_accepted()
            return
        trial = self._as_it_says(trials[0])
        if trial.judged.slips != self.recipe.slips:
            self._accuse(trial, results)
            return
        if self._not_as_said(trial):
            return
        words = f"a blocked key gets no weight (mask {trial.form.letters}, {trial.form.means})"
        results.held("blocked-keys", words)
        examine_returned(attention, results, trial)
        for other in trials[1:]:
            how = {"kind": trial.form.kind, "flipped": trial.form.flipped}
            again = self.trial(other.ndim, other.form._replace(**how), other.sizes)
            if again and again.judged.slips != self.recipe.slips:
                self._wrong_with_other_dimensions(again)
        if trial.form.letters != LENGTHS.letters:
            for other in attention.takes.masks[1:]:
                self._examine_second(other.name, trial)
            self._order_forgotten(trial)
            self._leaks_at_low_scores(trial)
            self._row_without_keys(trial)

    def _look_for_one(self) -> None:
        """Take an argument of unknown name for a mask only if it does what a mask does."""
        takes = self.attention.takes
        if self.attention.options.call is not None:
            words = "The adapter passes no mask on, so that masks were not examined."
            self.results.note("mask", words)
        for one in [one for one in takes.unknown if not one.required]:
            takes.masks = [one]
            ndims = sorted(self.attention.ndims, reverse=True)
            trial = next(filter(None, map(self._first_accepted, ndims)), None)
            if trial and trial.judged.masking.cause in LIKE_A_MASK:
                return
            takes.masks = []
            self.results.note("arguments", f"The argument {one.name} was left at its default.")

    def _first_accepted(self, ndim: int) -> Trial | None:
        """Return the first call that the function takes, of all the forms; None if none."""
        attention, mask = self.attention, self.attention.takes.mask
        forms = FORMS[ndim] if mask else (LENGTHS,)
        if mask and mask.role == "padding":
            forms = tuple(sorted(forms, key=lambda form: not form.per_key))
        kinds = ("float",) if attention.number else ("bool", "float", "additive")
        told = attention.options.mask
        for kind in ("additive",) if told == "additive" else kinds:
            for sizes in (GENERAL, relaxed(GENERAL, "L = S"), *[EQUAL_HEADS] * (ndim == 4)):
                for form in forms:
                    form = form._replace(kind=kind, flipped=told == "blocked")
                    if trial := self.trial(ndim, form, sizes):
                        return trial
        return None

    def trial(self, ndim: int, form: Form, sizes: Sizes, *, causal: bool = False) -> Trial | None:
        """Return a call with a mask; None if the function does not take it."""
        sizes = self.attention.sizes(sizes)
        lead = replace(sizes, N=sizes.N if ndim > 2 else 1, H=sizes.H if ndim > 3 else 1)
        allowed = pattern(lead, form)
        mask = form(allowed, torch.float32)
        try:
            sample = self.attention.sample(ndim, sizes, mask=mask, allowed=allowed, causal=causal)
        except Unusable:
            return None
        return Trial(ndim, form, sizes, sample, judged(self.recipe, sample))

    def _as_it_says(self, trial: Trial) -> Trial:
        """Return the trial with the mask that the function says it wants, if it is right then."""
        mask, function, note = self.attention.takes.mask, self.attention.function, self.results.note
        way = trial.judged.masking
        if mask is None or not self.free:
            return trial
        if way is INVERT and (mask.role == "padding" or says_blocked(function, mask.name)):
            words = "True means padding" if mask.role == "padding" else "True means blocked"
            words = f"{mask.name} is read as in nn.MultiheadAttention: {words}."
            note("mask-convention", words)
            return self.trial(trial.ndim, trial.form.turned(), trial.sizes) or trial
        if way.cause in (None, "mask-ignored", "mask-inverted"):
            return trial
        if trial.form.kind == "float" or says_additive(function, mask.name):
            form = trial.form._replace(kind="additive")
            added = self.trial(trial.ndim, form, trial.sizes)
            if added is not None and added.judged.masking.cause is None:
                words = "The mask is added to the scores: a boolean mask must be converted before."
                note("mask-convention", words)
                return added
        return trial

    def _not_as_said(self, trial: Trial) -> bool:
        """Return whether a mask is said to be True at padding, and blocks where it is False."""
        mask = self.attention.takes.mask
        plain = trial.form.kind != "additive" and not trial.form.flipped
        if mask is None or mask.role != "padding" or not self.free or not plain:
            return False
        words = f"{mask.name}: True means a real token; torch's is the opposite."
        self.results.note("mask-convention", words)
        if not says_true_is_padding(self.attention.function):
            return False
        turned = self.trial(trial.ndim, trial.form.turned(), trial.sizes)
        if turned is not None:
            recipe = replace(self.recipe, masking=NOT_AS_SAID)
            self._accuse(turned._replace(judged=recipe), self.results)
        return turned is not None

    def _wrong_with_other_dimensions(self, trial: Trial) -> None:
        """Report a mask that is right with other dimensions only; with heads, if made for heads."""
        apart = Results()
        self._accuse(trial, apart)
        if trial.ndim == 4 and says_heads(self.attention.function):
            self.results.findings += apart.findings
        else:
            which = {2: "One sequence alone, (L, E)", 4: "With heads, (N, H, L, E)"}[trial.ndim]
            self.results.note("dimensions", f"{which}: {apart.findings[0]}")

    def _accuse(self, trial: Trial, results: Results) -> None:
        recipe = trial.judged
        if recipe.masking is INVERT and self.attention.options.mask == "blocked":
            recipe = replace(recipe, masking=STILL_BLOCKED)
        weights, text = measured_weights(trial.sample), text_of(self.attention.function)
        report(recipe, [trial.sample], results, weights=weights, text=text)

    def _nothing_accepted(self) -> None:
        """Say which mask was not taken."""
        attention, results = self.attention, self.results
        form = FORMS[attention.main][0] if attention.takes.mask else LENGTHS
        inputs = attention.inputs(attention.main)
        sizes = as_sample((*inputs, inputs[0]), attention.sizes()).sizes
        mask = form(pattern(sizes, form), torch.float32)
        outcome = attention.outcome(*inputs, mask=mask)
        if isinstance(outcome.error, SLIPS_OF_THE_PEN):
            results.found("raises", f"With a mask {form.letters} it raises {outcome.trouble}.")
            return
        name = (attention.takes.mask or attention.takes.lengths).name
        results.unexamined(
            f"No mask of a usual shape is taken; {form.letters} gives "
            f"{outcome.trouble or 'a result of the wrong shape'}.",
            call=attention.told(**{name: f"tensor {tuple(mask.shape)}"}),
            remedy="Pass call=, a function (target, query, key, value, attn_mask) that calls it "
            "with the mask it wants.",
        )

    # --- two at once ------------------------------------------------------------------------------

    def _examine_second(self, name: str, trial: Trial) -> None:
        """Give a further mask alone and with the first one: both must block."""
        forms = sorted(FORMS[trial.ndim], key=lambda form: not form.per_key)
        tries = ((one, self._with(trial, name, one)) for form in forms
                 for one in (form, form.turned()))  # fmt: skip
        found = None
        for form, alone in tries:
            if alone is not None and (found is None or self.recipe.gives(alone)):
                found = form, alone
                if self.recipe.gives(alone):
                    break
        if found is None:
            return
        form, alone = found
        if judged(self.recipe, alone).masking is IGNORE:
            self.results.found("mask-ignored", f"The argument {name} changes nothing.")
            return
        both = self._with(trial, name, form, first=True)
        if both is not None and not self.recipe.gives(both):
            masks = {self.attention.takes.mask.name: trial.sample.allowed, name: alone.allowed}
            examine_both(both, masks, self.recipe, self.results)

    def _with(self, trial: Trial, name: str, form: Form, *, first: bool = False) -> Sample | None:
        """Return a call with a further mask, and with the first one if wanted."""
        allowed = pattern(trial.sample.sizes, form, seed=4)
        named, inputs = {name: form(allowed, torch.float32)}, self._inputs(trial)
        try:
            output = self.attention(*inputs, mask=trial.mask if first else None, **named).output
        except Unusable:
            return None
        allowed = allowed & trial.sample.allowed if first else allowed
        return as_sample((*inputs, output), trial.sizes, allowed)

    def _inputs(self, trial: Trial) -> tuple[Tensor, Tensor, Tensor]:
        return self.attention.inputs(trial.ndim, trial.sizes)

    def _order_forgotten(self, trial: Trial) -> None:
        """Switch causality on and give a mask as well: both must hold, or it may refuse."""
        causal = self.attention.takes.causal
        both = causal and self.trial(
            trial.ndim, trial.form, relaxed(trial.sizes, "L = S"), causal=True
        )
        if not both:
            return
        unmasked, name = both.sample._replace(allowed=None), f"{causal.name}=True"
        if self.recipe.gives(both.sample):
            cause = "causal-leak"
            sentence = f"Once a mask is given, {name} is forgotten: later keys are seen again."
        elif replace(self.recipe, order=CAUSAL).gives(unmasked):
            cause = "mask-leak"
            sentence = f"With {name} the mask is forgotten: blocked keys are seen again."
        else:
            return
        evidence = weights_table("Weights with both:", measured_weights(both.sample))
        self.results.found(cause, sentence, evidence, advice=BOTH)

    # --- what only some numbers show --------------------------------------------------------------

    def _leaks_at_low_scores(self, trial: Trial) -> None:
        """Repeat the call with all scores equal and very low: a finite fill lies above them."""
        query, key, value = self._inputs(trial)
        width, factor = query.shape[-1], abs(self.recipe.scale.compute(trial.sample.sizes))
        for level in LEVELS:
            size = (abs(level) / factor / width) ** 0.5
            low, high = torch.full_like(query, -size), torch.full_like(key, size)
            try:
                output = self.attention(low, high, value, mask=trial.mask).output
            except Unusable:
                return
            weights = measured_weights(as_sample((low, high, value, output), trial.sizes))
            leaked = weights.masked_fill(trial.sample.allowed, 0).sum(dim=-1).max()
            if leaked > SURE:
                sentence = (
                    "Blocked keys are filled with a finite number: once the allowed scores lie "
                    f"near {level:.0f}, blocked keys take {leaked:.2f} of a query's weight."
                )
                evidence = masked_table(weights, trial.sample.allowed)
                self.results.found("mask-finite", sentence, evidence)
                return

    def _row_without_keys(self, trial: Trial) -> None:
        """Report what a row gives in which every key is blocked, forward and backward."""
        allowed = torch.ones_like(trial.sample.allowed)
        rows = slice(None) if trial.form.per_key else slice(0, 1)
        allowed[: 1 if trial.form.per_key else None, ..., rows, :] = False
        inputs = [part.clone().requires_grad_() for part in self._inputs(trial)]
        mask = trial.form(allowed, torch.float32)
        try:
            output = self.attention(*inputs, mask=mask, graph=True).output
        except Unusable:
            return
        row = output.detach().reshape(-1, *output.shape[-2:])[0, 0]
        values = inputs[2].detach().reshape(-1, *inputs[2].shape[-2:])[0]
        what = "an average of values that it may not see"
        if row.isnan().any():
            what = "NaN"
        elif row.abs().max() < 1e-6:
            what = "0"
        elif torch.allclose(row, values.mean(dim=0), atol=1e-4):
            what = "the mean of all values, blocked ones included"
        if output.requires_grad and what != "NaN":
            grads = torch.autograd.grad(output.sum(), inputs, allow_unused=True)
            if any(grad is not None and not grad.isfinite().all() for grad in grads):
                what += ", and the gradients hold NaN"
        sentence = f"A row with no allowed key gives {what}."
        if what == "0":
            self.results.held("empty-row", "a row with no allowed key gives 0")
        elif self.attention.options.strict:
            columns = tuple(f"feature {i}" for i in range(5))
            rows = {"output of the row": row[:5].tolist()}
            evidence = number_table("All keys are blocked:", rows, columns)
            self.results.found("blocked-row", sentence, evidence)
        else:
            self.results.note("empty-row", sentence)


def examine_masks(attention: Attention, results: Results, recipe: Recipe) -> None:
    """Find out what the mask arguments do; ``recipe`` is right and says the rest."""
    Masks(attention, results, recipe).examine()


def examine_returned(attention: Attention, results: Results, trial: Trial | None = None) -> None:
    """Compare the weights that it returns with those that made the output."""
    ndim, sizes = (trial.ndim, trial.sizes) if trial else (attention.main, GENERAL)
    inputs = attention.inputs(ndim, sizes)
    try:
        result = attention(*inputs, mask=trial.mask if trial else None)
    except Unusable:
        return
    if result.weights is not None:
        used = measured_weights(as_sample((*inputs, result.output), GENERAL))
        lead = used.shape[:2]
        returned = result.weights.reshape(*lead, *result.weights.shape[-2:])
        returned_weights(returned, used, results, " under a mask" if trial else "")
