from tune_tickets.tracking.coordinates import coordinates, number

SETTINGS = {
    "method": {
        "kind": "earlyrobust",
        "penalty_heads": 1e-4,
        "gamma": {"uniform": [0.05, 0.2]},
        "drawing": {"heads": {"choice": ["1/6", "1/4"]}, "neurons": "3/10"},
        "patience": 5,
    }
}


def test_trials_carry_what_was_searched_and_what_methods_are_compared_by():
    found = coordinates(SETTINGS, {"method.gamma": 0.1, "method.drawing.heads": "1/4", "search_only": "x"})
    assert found == {
        "method.kind": "earlyrobust",
        "method.penalty_heads": 1e-4,
        "method.drawing.neurons": 0.3,
        "method.gamma": 0.1,
        "method.drawing.heads": 0.25,
        "search_only": "x",
    }


def test_a_domain_that_does_not_apply_to_a_trial_has_no_value():
    assert "method.gamma" not in coordinates(SETTINGS, {})


def test_only_fractions_become_numbers():
    assert number("1/6") == 0.166667
    assert [number(value) for value in ("bundled/imdb", "1/0", "freelb", 3, True, None, [1])] == [
        "bundled/imdb", "1/0", "freelb", 3, True, None, [1],
    ]  # fmt: skip
