"""What the callbacks of trainers have in common."""
from __future__ import annotations

import atexit
import os
import warnings
from typing import Any, Dict, Optional, Tuple, Union

from cowprof._program import CowprofError
from cowprof._recording import Recording, stop_or_warn

_WRONG_USAGE = 2  # exit status of cowprof


class Watch:
    """A recording of this process, looked at every so many steps."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], every_n_steps: int, on_alert: Optional[str], options: Dict[str, Any]) -> None:
        if on_alert not in (None, "stop", "checkpoint"):
            raise ValueError('on_alert is {!r}; it may be None, "stop" or "checkpoint"'.format(on_alert))
        if every_n_steps < 1:
            raise ValueError("every_n_steps has to be at least 1")
        self.on_alert = on_alert
        self.recording = Recording(path, **options)
        self._needs_port = any(options.get(name) not in (None, False) for name in ("serve", "metrics_listen"))
        self._every, self._steps = every_n_steps, 0
        self._started = False

    def start(self) -> None:
        """A host on which cowprof can't record must not end the training, nor one rank of several. A wrong option does: it is wrong everywhere. With
        a port it might be the port, which another rank's recorder may have."""
        self.stop()  # one of a training that failed, which no hook has stopped
        self._steps = 0
        try:
            self.recording.start()
        except (CowprofError, OSError) as error:
            if getattr(error, "status", None) == _WRONG_USAGE and not self._needs_port:
                raise
            warnings.warn("cowprof: {}; training goes on without a recording{}".format(error, ", and on_alert does nothing" if self.on_alert else ""),
                          RuntimeWarning, stacklevel=3)
            return
        self._started = True
        atexit.register(self.stop)

    def stop(self) -> None:
        self._started = False
        atexit.unregister(self.stop)
        stop_or_warn(self.recording)

    def is_due(self) -> bool:
        self._steps += 1
        return self._steps % self._every == 0

    def look(self) -> Tuple[Dict[str, float], bool]:
        """Figures to log, of those that are known, and whether an alert holds."""
        if not self._started:
            return {}, False
        live = self.recording.live()
        figures = {"cowprof/copied": live.copied_bytes, "cowprof/private": live.private_bytes, "cowprof/eta": live.eta_seconds}
        return {name: float(value) for name, value in figures.items() if value is not None}, bool(live.alerts)
