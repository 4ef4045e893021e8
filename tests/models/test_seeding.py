import hashlib

from tune_tickets.models.seeding import derived_seed


def test_every_part_counts_and_parts_do_not_run_together():
    seeds = {
        derived_seed(1, "a"),
        derived_seed(2, "a"),
        derived_seed(1, "b"),
        derived_seed(1, "a", 0),
        derived_seed("1a"),
    }
    assert len(seeds) == 5


def test_a_seed_is_the_first_63_bits_of_the_hash():
    expected = int(hashlib.sha256(b"7\x00order\x003").hexdigest()[:16], 16) // 2
    assert derived_seed(7, "order", 3) == expected < 2**63
