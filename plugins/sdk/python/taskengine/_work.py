"""The one stream of a handler process: runs come in, answers go out."""

import json
import queue
import threading
import traceback

from . import _wire
from ._task import Again, Cancelled, Permanent, RetryIn, Snooze, Task

_END = object()


class Worker:
    """Serves the stream, and owns the threads that run tasks."""

    def __init__(self, handlers, version, slots):
        self.met = threading.Event()  # the stream is open
        self.over = threading.Event()  # the stream has ended
        self._handlers = handlers
        self._version = version
        self._slots = slots
        self._max_result = 0
        self._runs = queue.SimpleQueue()  # of (handler, task, run id)
        self._answers = queue.SimpleQueue()  # of encoded finishes, pongs (int) and _END
        self._lock = threading.Lock()  # guards what follows
        self._running = {}  # tasks by run id
        self._idle = 0  # threads without a task, less the tasks that wait for one

    def work(self, requests, context):
        """The method Work: takes and gives encoded frames."""
        if self.met.is_set():
            raise RuntimeError("a handler process has one stream, and it is open")
        self.met.set()
        try:
            welcome = _wire.decode_to_handler(next(requests))["welcome"] or {}
            if welcome.get("protocol") != _wire.PROTOCOL:
                raise RuntimeError("the host speaks version %s of the protocol" % welcome.get("protocol"))
            self._slots = welcome["slots"] or self._slots
            self._max_result = welcome["max_result_bytes"]
            threading.Thread(target=self._receive, args=(requests,), daemon=True).start()
            hello = _wire.encode_hello("python", _sdk_version(), self._version, sorted(self._handlers), self._slots)
            yield _wire.encode_from_handler(hello=hello, credits=self._slots)
            yield from self._frames()
        finally:
            self.over.set()

    def _receive(self, requests):
        try:
            for data in requests:
                frame = _wire.decode_to_handler(data)
                for run in frame["runs"]:
                    self._begin(run)
                for cancel in frame["cancels"]:
                    self._cancel(cancel)
                if frame["ping"]:
                    self._answers.put(frame["ping"])
        except Exception as e:  # the host is gone, or sends what we cannot read
            if isinstance(e, _wire.DecodeError):
                traceback.print_exc()
        self._cancel_all()
        self._answers.put(_END)

    def _begin(self, run):
        handler = self._handlers.get(run.type)
        if handler is None:
            self._answers.put(_wire.finish_refused(run.run_id, "the program does not serve the type %r" % run.type))
            return
        task = Task(run)
        with self._lock:
            full = len(self._running) >= self._slots
            if not full:
                self._running[run.run_id] = task
                self._idle -= 1
                spawn = self._idle < 0
                if spawn:
                    self._idle += 1
        if full:
            self._answers.put(_wire.finish_refused(run.run_id, "the program runs %d tasks already" % self._slots))
            return
        self._runs.put((handler, task, run.run_id))
        if spawn:
            threading.Thread(target=self._loop, daemon=True).start()

    def _loop(self):
        while True:
            handler, task, run_id = self._runs.get()
            answer = self._attempt(handler, task, run_id)
            with self._lock:
                del self._running[run_id]
                self._idle += 1
            self._answers.put(answer)

    def _attempt(self, handler, task, run_id):
        """Runs the handler and returns the encoded finish, whatever the handler does."""
        try:
            result = _to_bytes(handler(task))
            if self._max_result and len(result) > self._max_result:
                return _too_large(run_id, result, self._max_result)
            return _wire.finish_result(run_id, result)
        except Again as again:
            return self._again(run_id, again)
        except Snooze as snooze:
            return _wire.finish_snooze(run_id, snooze.delay)
        except Permanent as e:
            return _wire.finish_error(run_id, _describe(e), e.error_class, permanent=True)
        except RetryIn as e:
            return _wire.finish_error(run_id, _describe(e), e.error_class, retry_delay=e.delay)
        except Cancelled as e:
            return _wire.finish_error(run_id, "cancelled: %s" % e, "cancelled")
        except BaseException as e:  # SystemExit too: a task must not end the process
            return _wire.finish_error(run_id, _describe(e, stack=True), type(e).__name__)

    def _again(self, run_id, again):
        try:
            result = _to_bytes(again.result)
        except Exception as e:
            return _wire.finish_error(run_id, _describe(e, stack=True), type(e).__name__)
        if self._max_result and len(result) > self._max_result:
            return _too_large(run_id, result, self._max_result)
        return _wire.finish_again(run_id, again.at, result)

    def _cancel(self, cancel):
        with self._lock:
            task = self._running.get(cancel["run_id"])
        if task is not None:
            deadline = cancel["reason"] == _wire.REASON_DEADLINE
            task.cancel_reason = cancel["message"] or ("the deadline is over" if deadline else "")
            task.cancelled.set()

    def _cancel_all(self):
        with self._lock:
            tasks = list(self._running.values())
        for task in tasks:
            task.cancel_reason = "the host is gone"
            task.cancelled.set()

    def _frames(self):
        """Yields frames of what there is to answer, each with the credits for as many new runs."""
        get, get_now = self._answers.get, self._answers.get_nowait
        while True:
            finishes, size, pong, item = [], 0, 0, get()
            try:
                while item is not _END:
                    if isinstance(item, int):
                        pong = item
                    else:
                        finishes.append(item)
                        size += len(item)
                        if size > _wire.FRAME_BYTES or len(finishes) == _wire.FRAME_MESSAGES:
                            break
                    item = get_now()
            except queue.Empty:
                pass
            if finishes or pong:
                yield _wire.encode_from_handler(credits=len(finishes), finishes=finishes, pong=pong)
            if item is _END:
                return


def _to_bytes(result):
    if result is None:
        return b""
    if isinstance(result, bytes):
        return result
    if isinstance(result, str):
        return result.encode()
    if isinstance(result, (bytearray, memoryview)):
        return bytes(result)
    return json.dumps(result).encode()


def _too_large(run_id, result, most):
    message = "the result has %d bytes, the host takes %d" % (len(result), most)
    return _wire.finish_error(run_id, message, "result_too_large", permanent=True)


def _describe(e, stack=False):
    """The text of an error: what a person needs first comes first, for it may be cut."""
    try:
        text = str(e)
    except Exception:
        text = "(its text raised an exception too)"
    if not stack:
        return text or type(e).__name__
    text = "%s: %s" % (type(e).__name__, text) if text else type(e).__name__
    return "%s\n%s" % (text, "".join(traceback.format_tb(e.__traceback__)[1:][-8:]))


def _sdk_version():
    from . import __version__

    return __version__
