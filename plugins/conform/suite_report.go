package conform

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// reportChecks returns the checks of progress, checkpoints and log lines.
func reportChecks() []check {
	const gated = "a side may use an optional part only if the welcome names its feature"
	const never = "without the feature the finish is a permanent error of class unsupported: dropping them would lose tasks"
	return []check{
		in(full, "log", "a line of the log has its run, its level and its fields, and comes before the finish", "log: a LogLine for each call, level -4, 0, 4 or 8", seeLog),
		ofHosts(in(full, "print", "what a task prints is in the standard error", "print: the payload by the plainest way to standard output and error; after the handshake both are the standard error", seePrint)),
		in(full, "progress", "progress is sent before the finish", "progress: done, total and message of the payload", func(s *session) error {
			return s.sees("progress", `{"done": 3, "total": 7, "message": "pägés"}`, true, func(w runReport) bool {
				p := w.progress
				return p.GetDone() == 3 && p.GetTotal() == 7 && p.GetMessage() == "pägés"
			})
		}),
		in(wide, "progress", "without the feature progress is not sent", gated, func(s *session) error {
			return s.silent("progress", `{"done": 3, "total": 7, "message": "pages"}`)
		}),
		in(full, "checkpoint", "a checkpoint is sent before the finish", "checkpoint: keeps the payload, and then fails with \"kept\"", func(s *session) error {
			return s.sees("checkpoint", "\x00page 2\xff", false, func(w runReport) bool { return string(w.checkpoint.GetData()) == "\x00page 2\xff" })
		}),
		in(wide, "checkpoint", "without the feature a checkpoint is not sent", gated, func(s *session) error {
			return s.silent("checkpoint", "page 2")
		}),
		onANode("children", "a node adds a child with the finish, once for each key", "children: the child of the payload in finish.children, the result is \"spawned\"", seeChildren),
		in(wide, "children", "without the feature a child fails its task for good", never, func(s *session) error {
			return s.unsupported("children", childPayload)
		}),
	}
}

func seeLog(s *session) error {
	levels := map[string]int32{"debug": -4, "info": 0, "warn": 4, "error": 8}
	for _, name := range []string{"error", "warn", "info", "debug"} {
		run := newRun("log", fmt.Appendf(nil, `{"level": %q, "message": "stöck is low", "fields": {"product": "tea", "left": "0"}}`, name))
		if _, err := s.do(run); err != nil {
			return err
		}
		var lines []*wire.LogLine
		for _, what := range s.reportsOf(run) {
			if what.log != nil && !what.late {
				lines = append(lines, what.log)
			}
		}
		if len(lines) != 1 {
			return fmt.Errorf("of the level %s there came %d lines: %.300v", name, len(lines), lines)
		}
		l := lines[0]
		fields := maps.Clone(l.GetFields())
		at := time.UnixMicro(l.GetTime())
		switch {
		case l.GetMessage() != "stöck is low" || fields["product"] != "tea" || fields["left"] != "0":
			return fmt.Errorf("of the level %s came {%.300v}", name, l)
		case l.GetLevel() != levels[name]:
			return fmt.Errorf("the level of %s is %d, wanted is %d", name, l.GetLevel(), levels[name])
		case l.GetTime() != 0 && time.Since(at).Abs() > time.Hour:
			return fmt.Errorf("the time of the line is %v", at)
		}
	}
	return nil
}

func seePrint(s *session) error {
	const text = "printed by a task 8d2f"
	if _, err := s.do(newRun("print", []byte(text))); err != nil {
		return err
	}
	for end := time.Now().Add(s.patience); strings.Count(textOf(s.proc.errors), text) < 2; time.Sleep(unexpectedTime / 10) {
		if time.Now().After(end) || s.ctx.Err() != nil {
			return fmt.Errorf("its standard error has the text %d times, wanted is once for each of print to standard output and to standard error; its standard output has it %d times",
				strings.Count(textOf(s.proc.errors), text), strings.Count(textOf(s.proc.printed), text))
		}
	}
	return nil
}

// sees runs a task that reports something and then succeeds or fails.
func (s *session) sees(typ, payload string, succeeds bool, is func(runReport) bool) error {
	run := newRun(typ, []byte(payload))
	f, err := s.do(run)
	if err != nil {
		return err
	}
	if err := ends(f, succeeds); err != nil {
		return err
	}
	all := s.reportsOf(run)
	for _, r := range all {
		if !r.late && is(r) {
			return nil
		}
	}
	return fmt.Errorf("before the finish it did not come; of the run came %.300v", all)
}

// ends returns an error unless the finish is a result, or an error to be tried again.
func ends(f *wire.Finish, succeeds bool) error {
	if succeeds {
		_, err := resultOf(f)
		return err
	}
	e, err := failureOf(f)
	if err != nil {
		return err
	}
	return retryable(e, "kept")
}

// silent runs a task that would report something if the welcome had the feature.
func (s *session) silent(typ, payload string) error {
	run := newRun(typ, []byte(payload))
	f, err := s.do(run)
	if err != nil {
		return err
	}
	if err := ends(f, typ != "checkpoint"); err != nil {
		return err
	}
	s.waitForUnexpected(unexpectedTime)
	for _, what := range s.reportsOf(run) {
		if what.log == nil {
			return fmt.Errorf("there came %v", what)
		}
	}
	return nil
}

const childPayload = `{"type": "mail", "key": "käy", "payload": "to you"}`

// unsupported runs a task. Its finish would need a feature that the welcome does not have.
func (s *session) unsupported(typ, payload string) error {
	f, err := s.do(newRun(typ, []byte(payload)))
	if err != nil {
		return err
	}
	e, err := failureOf(f)
	if err != nil {
		return err
	}
	if !e.GetPermanent() || e.GetClass() != "unsupported" || len(f.GetChildren())+len(f.GetDocuments()) > 0 {
		return fmt.Errorf("the finish is {%.300v}", f)
	}
	return nil
}
