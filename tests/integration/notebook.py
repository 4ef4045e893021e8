"""What a notebook does, in one script: the cells run in a loop of asyncio, as Jupyter runs them. Prints JSON."""

import asyncio
import json
import sys

import tune_tickets as tt

source, output, data = sys.argv[1:]
BUGGER = "textbugger/minilm"


async def cells() -> dict[str, object]:
    assert asyncio.get_running_loop().is_running()
    events: list[object] = []
    experiment = tt.Experiment.load(source, {"search.trials": 2, "store": f"{output}-store"})
    result = tt.tune(experiment, output, progress=events.append)
    again = tt.tune(experiment, output, resume=True, progress=False)

    ticket = tt.load_ticket(result.winner())
    answers = [label for label, _ in ticket.predict(["a good film", "a bad film"])]
    searched = tt.attack(result)
    own = tt.attack(
        ticket, ["the film was good", "a bad plot", "a very good story"], ["pos", "neg", "pos"], threat=BUGGER
    )
    fresh = tt.attack(ticket, data=data, threat=BUGGER, rows=6, seed=1, progress=False)

    # Elsewhere than in the main thread there are no signals to listen to.
    threaded = await asyncio.to_thread(tt.tune, experiment, f"{output}-thread", progress=False)
    return {
        "status": [result.summary.status, again.summary.status, threaded.summary.status],
        "computed": threaded.summary.stages["retrain"].computed,
        "trials": [len(each.summary.trials) for each in (result, again, threaded)],
        "events": len(events),
        "best": str(result.best),
        "table": result.table(),
        "answers": answers,
        "searched": {name: one.model_dump(mode="json") for name, one in searched.figures.items()},
        "winner": [
            t.outcome.attacks[0].model_dump(mode="json")
            for t in result.summary.trials
            if t.id == result.summary.selected.trial and t.outcome
        ],
        "own": [len(records) for records in own.records.values()],
        "own_table": own.table(),
        "fresh": repr(fresh),
    }


print(json.dumps(asyncio.run(cells())))
