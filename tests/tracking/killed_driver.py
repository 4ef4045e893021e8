"""A driver that dies without warning in the middle of a trial; run as a process by the crash test."""

import os
import signal
import sys
from pathlib import Path

from tests.tracking.conftest import SETTINGS
from tune_tickets.config.search import Tracking
from tune_tickets.tracking.protocol import open_tracker

tracker = open_tracker(Tracking(), Path(sys.argv[1]), "demo", SETTINGS, "digest")
tracker.start_trial("t0", 0, {"method.gamma": 0.1})
tracker.log("t0", {"probe": 40.0}, 1)
os.kill(os.getpid(), signal.SIGKILL)
