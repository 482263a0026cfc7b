"""Ready-made experiments: move a slider, click a cell, and see what attention does.

Each explorer is a widget in Jupyter and a moving figure in a page without a kernel. Its state can
be given at the start, set from Python and read back::

    scaling = ScalingExplorer(d_k=256)
    scaling.result.best_rates  # the numbers behind the picture
"""

# ruff: noqa: F401  (__all__ finds the explorers by their names)

from attnlab.explorers.cache import CacheExplorer
from attnlab.explorers.cost import CostExplorer
from attnlab.explorers.deal import DealExplorer
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.head_view import HeadView
from attnlab.explorers.layers import LayersExplorer
from attnlab.explorers.live import Live, live
from attnlab.explorers.look_up import SoftLookupExplorer
from attnlab.explorers.looking_back import LookingBackExplorer
from attnlab.explorers.masks import MaskExplorer
from attnlab.explorers.pieces import PiecesExplorer
from attnlab.explorers.real_heads import RealHeadsExplorer
from attnlab.explorers.rotary import RotaryExplorer
from attnlab.explorers.row import RowExplorer
from attnlab.explorers.scaling import ScalingExplorer
from attnlab.explorers.who_asks import WhoAsksExplorer

__all__ = ["Live", "live"]
__all__ += sorted(name for name in globals() if name.endswith(("Explorer", "View")))
