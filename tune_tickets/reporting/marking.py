"""Attacked texts for people: changed words marked, and nothing in a text able to steer the terminal that shows it."""

from collections.abc import Iterable, Sequence

from rich.text import Text

from tune_tickets.records import Substitution

MARKED = "[[{old} -> {new}]]"
_LONGEST_SAME = 240  # characters of an unchanged stretch that are shown whole
_ENDS = 100
_ELLIPSIS = " ... "


def harmless(text: str, encoding: str = "utf-8") -> str:
    """The text with control characters, and all that the encoding lacks, written as escapes such as \\x1b."""
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def lookalikes(found: Substitution) -> str:
    """Letters from outside ASCII that the change has put in: 'U+0430' looks like an a, and nobody would see it."""
    fresh = sorted({letter for letter in found.new if not letter.isascii()} - set(found.old))
    return " ".join(f"U+{ord(letter):04X}" for letter in fresh)


def marked_text(pieces: Sequence[tuple[str, str]], colour: bool, encoding: str = "utf-8") -> Text:
    """A text from its (old, new) pieces: changes in colour, or as [[old -> new]]; long unchanged parts shortened."""
    shown = Text()
    for index, (old, new) in enumerate(pieces):
        if old == new:
            same = _shortened(old, first=index == 0, last=index == len(pieces) - 1)
            shown.append(harmless(same, encoding))
        elif colour:
            shown.append(harmless(old, encoding), "red strike")
            shown.append(" " if old else "")
            shown.append(harmless(new, encoding), "bold green")
        else:
            shown.append(MARKED.format(old=harmless(old, encoding), new=harmless(new, encoding)))
    return shown


def substitution_text(found: Substitution, colour: bool, encoding: str = "utf-8") -> Text:
    """One line: similarity, whether the attack succeeded, and the change among its neighbours."""
    similarity = "    " if found.similarity is None else f"{found.similarity:.2f}"
    head = Text(f"{similarity} {'success' if found.successful else 'failed '}  ")
    sides = [(found.left, found.left), (found.old, found.new), (found.right, found.right)]
    return head + marked_text(sides, colour, encoding)


def substitution_page(threat: str, model: str, found: Iterable[Substitution]) -> str:
    """The substitutions of one threat model as plain text, for a file."""
    lines = [substitution_text(one, colour=False).plain for one in found]
    header = f"{threat} against {model}: {len(lines)} random substitutions (similarity of the whole text, outcome)"
    return "\n".join([header, *(lines or ["nothing was changed"])]) + "\n"


def _shortened(text: str, first: bool, last: bool) -> str:
    if len(text) <= _LONGEST_SAME:
        return text
    head = "" if first else text[:_ENDS]
    tail = "" if last else text[-_ENDS:]
    return text[:_LONGEST_SAME] + _ELLIPSIS if first and last else head + _ELLIPSIS + tail
