"""Contractions of Unicode's default collation table: runs of characters with a common weight.

From version 13 of the table (``allkeys.txt``), unchanged in version 14: prevowels of Thai, Lao, New Tai Lue and Tai
Viet before their consonants, and letters with marks that form letters of their own.

Not here: their weights (`collations` reads them from the server).
"""

from collections.abc import Iterator

#: First characters, then the characters that follow: one of the second column, or all of them after a plus sign.
_TABLE = """
004C 006C: 00B7 0387
0418 0438: 0306
0627: 0653-0655
0648 064A: 0654
09C7: 09BE 09D7
0B47: 0B3E 0B56-0B57
0B92: 0BD7
0BC6: 0BBE 0BD7
0BC7: 0BBE
0C46: 0C56
0CBF 0CCA: 0CD5
0CC6: 0CC2 0CD5-0CD6
0CC6: 0CC2 + 0CD5
0D46: 0D3E 0D57
0D47: 0D3E
0DD9: 0DCA 0DCF 0DDF
0DD9: 0DCF + 0DCA
0DDC: 0DCA
0E40-0E44: 0E01-0E2E
0E4D: 0E32
0EC0-0EC4: 0E81-0E82 0E84 0E86-0E8A 0E8C-0EA3 0EA5 0EA7-0EAE 0EDC-0EDF
0ECD: 0EB2
0F71: 0F72 0F74 0F80
0FB2-0FB3: 0F80-0F81
0FB2-0FB3: 0F71 + 0F80
1025: 102E
19B5-19B7 19BA: 1980-19AB
1B05 1B07 1B09 1B0B 1B0D 1B11 1B3A 1B3C 1B3E-1B3F 1B42: 1B35
AAB5-AAB6 AAB9 AABB-AABC: AA80-AAAF
11131-11132: 11127
11347: 1133E 11357
114B9: 114B0 114BA 114BD
115B8-115B9: 115AF
11935: 11930
"""


def _characters(text: str) -> Iterator[str]:
    for part in text.split():
        first, _, last = part.partition("-")
        yield from map(chr, range(int(first, 16), int(last or first, 16) + 1))


def _runs() -> Iterator[str]:
    for line in _TABLE.split("\n"):
        first, _, following = line.partition(":")
        together = "+" in following
        seconds = ["".join(_characters(following.replace("+", " ")))] if together else list(_characters(following))
        for character in _characters(first):
            yield from (character + second for second in seconds)


#: All contractions.
DUCET = tuple(_runs())
