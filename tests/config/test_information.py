from tune_tickets.config.experiment import Settings, uses_ood_information
from tune_tickets.config.task import Task, Twin, TwinTrain
from tune_tickets.methods.srnets import SRNets

TASK = Task(ood=(Twin(name="other", source="other.csv", train=TwinTrain(source="more.csv")),))


def test_measuring_on_a_twin_is_no_use_of_it():
    assert not uses_ood_information(Settings(task=TASK))
    assert not uses_ood_information(Settings(task=TASK, method=SRNets()))


def test_training_on_rows_of_a_twin_is():
    assert uses_ood_information(Settings(task=TASK, method=SRNets(ood_rows=True)))
