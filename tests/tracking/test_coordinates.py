from tune_tickets.tracking.naming import coordinates

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
    given = {"a": "1/8", "b": "bundled/imdb", "c": "1/0", "d": "freelb", "e": 3, "f": True, "g": None, "h": [1]}
    assert coordinates({}, given) == {**given, "a": 0.125}
