import pytest

from tune_tickets.attacks import word_rules as antonyms
from tune_tickets.attacks.neighbours import is_substitute
from tune_tickets.attacks.threat import ANTONYMS_FILE, ANTONYMS_VARIABLE
from tune_tickets.errors import ResourceError

OPPOSITES = """
good bad | boring enjoyable | worst best | love hate | hot cold | always never | increase decrease | first last
male female | with without | win lose | success failure | happy sad | beautiful ugly | smart stupid | rich poor
strong weak | fast slow | new old | big small | long short | high low | early late | open closed | true false
right wrong | full empty | easy difficult | light dark | young old | brave cowardly | kind cruel | polite rude
cheap expensive | clean dirty | deep shallow | dead alive | friend enemy | guilty innocent | heavy light | hero villain
inside outside | interesting dull | laugh cry | legal illegal | maximum minimum | north south | peace war | praise blame
safe dangerous | simple complex | sweet bitter | thick thin | tight loose | up down | victory defeat | wet dry
wide narrow | wise foolish | accept reject | arrive depart | attack defend | begin end | build destroy | buy sell
create destroy | find lose | give take | include exclude | lead follow | push pull | remember forget | rise fall
funny tragic | fresh stale | witty humorless | original derivative | gripping tedious | succeed fail | comedy tragedy
loved hated | won lost | bigger smaller | happily sadly | quickly slowly | strongest weakest | darkness brightness
women men | boys girls | sisters brothers | kings queens | richer poorer | rising falling | winners losers
monday friday | january june | two three | red blue | northern southern | yesterday tomorrow
happy unhappy | possible impossible | regular irregular | careful careless | like dislike | legal illegal | fair unfair
useful useless | understand misunderstand | encourage discourage | overrated underrated | export import
predictable unpredictable | employer employee | waiter waitress | upstairs downstairs | hopeful hopeless
""".replace("\n", " | ")
PAIRS = [tuple(pair.split()) for pair in OPPOSITES.split("|") if pair.strip()]


def test_there_are_well_over_fifty_written_out_pairs():
    assert len(set(PAIRS)) > 100


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_opposites_never_stand_in_for_one_another(first, second):
    assert not is_substitute(first, second)
    assert not is_substitute(second, first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("film", "movie"),
        ("funny", "hilarious"),
        ("story", "tale"),
        ("dull", "boring"),
        ("love", "adore"),
        ("quick", "fast"),
    ],
)
def test_near_synonyms_may_stand_in_for_one_another(first, second):
    assert not antonyms.opposed(first, second)
    assert is_substitute(first, second)


def test_the_list_holds_thousands_of_pairs_and_no_word_opposed_to_itself():
    pairs = list(antonyms._pairs(ANTONYMS_FILE))
    assert len({frozenset(pair) for pair in pairs}) > 5000
    for line in ANTONYMS_FILE.read_text(encoding="utf-8").splitlines():
        sides = line.split("/")
        if len(sides) == 2 and not line.startswith("#"):
            assert not set(sides[0].split()) & set(sides[1].split()), line


def test_a_second_list_is_obeyed(tmp_path, monkeypatch):
    assert not antonyms.opposed("movie", "cinema")
    extra = tmp_path / "more.txt"
    extra.write_text("# house rules\nmovie / cinema\n")
    monkeypatch.setenv(ANTONYMS_VARIABLE, str(extra))
    assert antonyms.opposed("movies", "cinemas")


@pytest.mark.parametrize("line", ["alone", "a / ", "a / b / c"])
def test_a_line_that_says_nothing_is_named(tmp_path, monkeypatch, line):
    extra = tmp_path / "more.txt"
    extra.write_text(f"hot / cold\n{line}\n")
    monkeypatch.setenv(ANTONYMS_VARIABLE, str(extra))
    with pytest.raises(ResourceError, match=r"more\.txt, line 2"):
        antonyms.opposed("this", "that")
