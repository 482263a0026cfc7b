"""What a learner does: predict an answer before a cell shows it, and check an exercise."""

# ruff: noqa: F401  (__all__ finds the checks by their names)

from attnlab.exercises.frame import stale
from attnlab.exercises.frame.verdict import Verdict
from attnlab.exercises.hand_in import hand_in
from attnlab.exercises.lesson_00 import check_new_vector, check_third_sentence
from attnlab.exercises.lesson_01 import (
    check_attention_from_exp,
    check_mended,
    check_query_for_awesome,
    check_zero_query,
)
from attnlab.exercises.lesson_02 import (
    check_divided_once,
    check_normed_scores,
    check_small_start,
    check_three_logs,
)
from attnlab.exercises.lesson_03 import (
    check_causal_test,
    check_padded_batch,
    check_safe_softmax,
)
from attnlab.exercises.lesson_04 import (
    check_contributions,
    check_darkest_range,
    check_lonely_weights,
    check_sharp_factor,
)
from attnlab.exercises.lesson_05 import (
    check_minimal_pair,
    check_needed_strength,
    check_plain_average,
    check_tested_head,
)
from attnlab.exercises.lesson_06 import (
    check_fitting_keys,
    check_linear_from,
    check_parameter_count,
    check_same_scores,
)
from attnlab.exercises.lesson_07 import (
    check_mended_heads,
    check_multi_head,
    check_three_in_one,
)
from attnlab.exercises.lesson_08 import (
    check_joined_pieces,
    check_mended_pieces,
    check_needed_tile,
    check_weight_memory,
)
from attnlab.exercises.lesson_09 import (
    check_disguise,
    check_hiding_sizes,
    check_learning_probe,
    check_mended_mask,
)
from attnlab.exercises.lesson_10 import (
    check_mended_ablation,
    check_own_word,
    check_sink_share,
    check_third_word,
)
from attnlab.exercises.lesson_11 import (
    check_angle_of_pair,
    check_mended_rotary,
    check_rotate_at,
    check_to_halves,
)
from attnlab.exercises.lesson_12 import (
    check_best_key,
    check_mended_stream,
    check_position_to_look_at,
    check_same_letter_score,
)
from attnlab.exercises.lesson_13 import (
    check_bytes_of_a_token,
    check_cache_test,
    check_mended_decoding,
    check_window_with_sinks,
)
from attnlab.exercises.lesson_14 import (
    check_careful_swap,
    check_fooling_sentence,
    check_hidden_token,
)
from attnlab.exercises.predict import Prediction, predict

stale.watch_cells()

__all__ = ["Prediction", "Verdict", "hand_in", "predict"]
__all__ += sorted(name for name in globals() if name.startswith("check_"))
