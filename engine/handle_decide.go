package engine

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Failure is a failed attempt. [Config.Retry] decides about the next step.
type Failure struct {
	Task    *task.Task   // as it was when the attempt began, with its payload; Attempt is the number of this attempt, from 1 on
	Verdict task.Verdict // Outcome is Errored, Crashed or TimedOut; the handler asked for GiveUp, Delay and Class
	At      time.Time    // when the attempt ended, by the clock of [Engine.Now]
}

// Decision is the next step after a failed attempt. The zero Decision leaves it to the policy of the type.
type Decision struct {
	To     task.State // Waiting: another attempt follows; Error: none does, and the task waits for a person; Failed or Cancelled: it has ended; no other
	At     time.Time  // with Waiting: when it follows, by the clock of [Engine.Now]; a time that has passed is now; at most the end of the year 9999
	Reason string     // why, as text; added to the error of the attempt
}

// decided returns the verdict on the attempt of t as Config.Retry changes it.
func (e *Engine) decided(t *task.Task, v task.Verdict) task.Verdict {
	if e.config.Retry == nil || t.Type == relayType || v.Outcome != task.Errored && v.Outcome != task.Crashed && v.Outcome != task.TimedOut {
		return v
	}
	f := Failure{Task: t, Verdict: v, At: e.Now().Round(0)}
	d, err := e.askRetry(f)
	delay := time.Duration(-1)
	switch {
	case err != nil:
	case d == Decision{}:
		return v
	case d.To == task.Error, d.To == task.Failed, d.To == task.Cancelled:
	case d.To == task.Waiting && (d.At.IsZero() || d.At.Year() <= 9999):
		delay = max(0, e.byTimebase(d.At).Sub(f.At))
	default:
		err = fmt.Errorf("it decided for the state %v at %v, which cannot be", d.To, d.At)
	}
	if err != nil {
		if e.handlers.badRetries.Allow() {
			e.log.Error("Config.Retry failed; the policy of the type decides", "task_id", t.ID, "type", t.Type, "error", err)
		}
		return v
	}
	v.Next, v.Delay = d.To, delay
	if d.Reason != "" {
		v.Error += " (" + d.Reason + ")"
	}
	return v
}

func (e *Engine) askRetry(f Failure) (d Decision, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return e.config.Retry(f), nil
}
