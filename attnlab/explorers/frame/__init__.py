"""What all explorers are made of: base class, controls, panels, sentences, and their scripts."""

from attnlab.explorers.frame.base import COLOURS, few_colours
from attnlab.explorers.frame.bundle import encode_frames, to_json
from attnlab.explorers.frame.sentences import LONGEST

__all__ = ["COLOURS", "LONGEST", "encode_frames", "few_colours", "to_json"]
