"""Plots of attention and memory: from plain arrays and tokens to a matplotlib figure, or to a page.

The functions `explore_...` return an `ExplorerPage`, an HTML page to point and click in, without
matplotlib. The others do not use `pyplot` and do not change its state. Save a figure with
`figure.savefig("alignment.png")`. In a notebook, after `%matplotlib inline`, end a cell with the
figure to display it.

All scripts are supported: fonts are selected from those installed and those of the extra `fonts`.
Characters that no font contains are drawn as □, and one warning per process lists them. Joined
letters and right-to-left order inside Arabic, Hebrew or Devanagari words need matplotlib 3.11 or
later, which shapes text; older versions draw letters unjoined and left to right. The axes always
run in the order of the tokens: from left to right and from top to bottom.
"""

from keras_attention.plotting._explorer_page import ExplorerPage
from keras_attention.plotting._text_html import text_weights_html
from keras_attention.plotting.alignment import plot_alignment, plot_alignments
from keras_attention.plotting.explore_attention import explore_alignments, explore_heads
from keras_attention.plotting.explore_image_attention import explore_image_attention
from keras_attention.plotting.explore_memory_use import explore_memory_use
from keras_attention.plotting.explore_search import explore_beam_search, explore_hypotheses
from keras_attention.plotting.explore_text_weights import explore_text_weights
from keras_attention.plotting.head_view import plot_head_view
from keras_attention.plotting.heads import plot_heads
from keras_attention.plotting.image_attention import plot_image_attention
from keras_attention.plotting.ntm import plot_bits, plot_memory_use
from keras_attention.plotting.text_heatmap import plot_text_weights

__all__ = [
    "ExplorerPage",
    "explore_alignments",
    "explore_beam_search",
    "explore_heads",
    "explore_hypotheses",
    "explore_image_attention",
    "explore_memory_use",
    "explore_text_weights",
    "plot_alignment",
    "plot_alignments",
    "plot_bits",
    "plot_head_view",
    "plot_heads",
    "plot_image_attention",
    "plot_memory_use",
    "plot_text_weights",
    "text_weights_html",
]
