from tune_tickets.attacks.parts import Span, window_around, word_spans


def test_words_are_found_in_their_columns():
    spans = word_spans(["a", "man", "a", "dog"], ["a man.", "'a' dog"])
    assert spans == [Span(0, 0, 1), Span(0, 2, 5), Span(1, 1, 2), Span(1, 4, 7)]


def test_an_empty_column_is_passed_over():
    assert word_spans(["dog"], ["", "", "dog"]) == [Span(2, 0, 3)]


def test_a_window_holds_so_many_words_and_stops_at_the_ends():
    text = "(a, b c d e f!)"
    spans = word_spans(list("abcdef"), [text])
    assert window_around(text, spans, 2, 3) == "b c d"
    assert window_around(text, spans, 0, 3) == "a, b c"
    assert window_around(text, spans, 5, 3) == "d e f"
    assert window_around(text, spans, 3, 6) == text
