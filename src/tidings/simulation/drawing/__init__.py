"""Drawings: a topology, what its brokers hold and what its links carried, as one SVG document.

The area of a circle grows with the broker's table, the width of a line with the link's traffic.
Here is everything from the layout to the last element of the document; the figures come from
others, who also write the document somewhere. Pure, and stable: equal arguments give equal text.

    places    where each broker is: given, a ribbon, a radial tree, or balanced springs; scaled, so
              that circles have room between them
    scene     what there is to draw, checked, and the size and place of each broker
    labels    whatever text fits without covering circles or other text; tooltips hold the rest
    signs     circles, lines and text as elements of SVG, and how wide text is
    page      all of it on one page, with a legend
"""

from tidings.simulation.drawing.page import draw

__all__ = ["draw"]
