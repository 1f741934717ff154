"""What the callbacks of trainers have in common."""
from __future__ import annotations

import atexit
import os
from typing import Any, Dict, Optional, Tuple, Union

from cowprof._recording import Recording, stop_or_warn


class Watch:
    """A recording of this process, looked at every so many steps."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], every_n_steps: int, on_alert: Optional[str], options: Dict[str, Any]) -> None:
        if on_alert not in (None, "stop", "checkpoint"):
            raise ValueError('on_alert is {!r}; it may be None, "stop" or "checkpoint"'.format(on_alert))
        if every_n_steps < 1:
            raise ValueError("every_n_steps has to be at least 1")
        self.on_alert = on_alert
        self.recording = Recording(path, **options)
        self._every, self._steps = every_n_steps, 0

    def start(self) -> None:
        self.stop()  # one of a training that failed, which no hook has stopped
        self.recording.start()
        self._steps = 0
        atexit.register(self.stop)

    def stop(self) -> None:
        atexit.unregister(self.stop)
        stop_or_warn(self.recording)

    def is_due(self) -> bool:
        self._steps += 1
        return self._steps % self._every == 0

    def look(self) -> Tuple[Dict[str, float], bool]:
        """Figures to log, of those that are known, and whether an alert holds."""
        live = self.recording.live()
        figures = {"cowprof/copied": live.copied_bytes, "cowprof/private": live.private_bytes, "cowprof/eta": live.eta_seconds}
        return {name: float(value) for name, value in figures.items() if value is not None}, bool(live.alerts)
