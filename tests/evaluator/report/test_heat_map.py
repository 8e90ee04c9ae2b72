from xml.etree import ElementTree

from sample_verdicts import mismatch

from evaluator.report.heat_map import HeatMap


def small(**changes):
    """Four quarters of a matrix of 6 rows and 4 columns, of which one is wrong in part and one as a whole."""
    update = {"heat": ((0.0, 0.2), (0.0, 1.0)), "shape": (6, 4), "index": (4, 3)} | changes
    return HeatMap(mismatch().model_copy(update=update))


def test_a_heat_map():
    first, *lines, last = str(small().picture).splitlines()
    assert first == (
        '<svg class="heat" viewBox="0 0 560 130" role="img" aria-label="Heat map of the wrong elements of y: '
        'most of the last rows, towards the last columns">'
    )
    assert last == "</svg>"
    assert [line for line in lines if line] == [
        '<g transform="translate(70 8)">',
        '<path class="f-h0" d="M0 0H480V64H0z"/>',
        '<g><title>rows 0 to 2, columns 2 to 3: 20% wrong</title><path class="f-h2" d="M240 0H480.3V32.3H240z"/></g>',
        "<g><title>rows 3 to 5, columns 2 to 3: 100% wrong</title>"
        '<path class="f-h5" d="M240 32H480.3V64.3H240z"/></g>',
        '<path class="f-none s-line" d="M0 0H480V64H0z"/>',
        '<path class="f-none s-card" stroke-width="5" d="M351 48a9 9 0 1 0 18 0a9 9 0 1 0 -18 0z"/>'
        '<path class="f-none s-mark" stroke-width="2.5" d="M351 48a9 9 0 1 0 18 0a9 9 0 1 0 -18 0z"/>',
        '<text class="f-soft" x="0" y="84">0</text>',
        '<text class="f-soft" x="480" y="84" text-anchor="end">3</text>',
        '<text class="f-soft" x="240" y="106" text-anchor="middle">column</text>',
        '<text class="f-soft" x="-8" y="12" text-anchor="end">0</text>',
        '<text class="f-soft" x="-8" y="64" text-anchor="end">5</text>',
        '<text class="f-soft" text-anchor="middle" transform="translate(-50 32) rotate(-90)">row</text>',
        "</g>",
    ]


def test_a_heat_map_whose_place_nobody_knows_has_neither_ends_nor_a_worst_element():
    lone = small(shape=(), index=(7,))
    assert lone.worst is None
    root = ElementTree.fromstring(str(lone.picture))
    assert [text.text for text in root.iter("text")] == [
        "0",
        "element within the row",
        "0",
        "from first to last element",
    ]
    assert not [path for path in root.iter("path") if "s-mark" in path.get("class")]


def test_names_in_a_heat_map_are_words():
    picture = str(small(output='y"><script>', pattern="\x00\u202e</svg>").picture)
    root = ElementTree.fromstring(picture)
    assert root.get("aria-label") == r'Heat map of the wrong elements of y"><script>: \x00\u202e</svg>'
    assert picture.count("</svg>") == 1
