"""Pictures of attention and memory: plain arrays and tokens in, a matplotlib figure out.

The functions use no `pyplot` and change none of its state. Save a figure with
`figure.savefig("alignment.png")`; a notebook shows the figure that a cell ends in, after
`%matplotlib inline`.

Any script: fonts are chosen among those installed and those of the extra `fonts`; characters that
none of them holds are drawn as □ and named in one warning a process. Joined letters and the inner
direction of Arabic, Hebrew or Devanagari words need matplotlib 3.11 or later, which shapes
text; older ones draw letters unjoined and left to right. The axes always run in the order of
the tokens: from left to right and from top to bottom.
"""

from keras_attention.plotting.alignment import plot_alignment, plot_alignments
from keras_attention.plotting.heads import plot_heads
from keras_attention.plotting.heads_view import plot_head_view
from keras_attention.plotting.images import plot_image_attention
from keras_attention.plotting.tapes import plot_bits, plot_memory_use
from keras_attention.plotting.text_pages import text_weights_html
from keras_attention.plotting.texts import plot_text_weights

__all__ = [
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
