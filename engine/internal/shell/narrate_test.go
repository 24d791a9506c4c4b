package shell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/engine/internal/core"
)

// narrate prints the requests of the shell since the last call.
func (s *story) narrate() {
	for _, run := range s.begun {
		s.printf("run %d%s", number(run.ID), attempt(run))
	}
	for _, r := range s.replies {
		s.printf("%s", reply(r))
	}
	for _, l := range s.lines {
		s.printf("%s: %s", [...]string{"debug", "info", "warning", "error"}[l.Level], l.Text)
	}
	if s.failure != nil {
		s.printf("the engine has failed: %v", s.failure)
	}
	if s.heldChanged {
		s.printf("reads leave out the lanes %v", s.shell.Held(s.now))
	}
	if s.released {
		s.printf("all tasks are to be read")
	}
	s.begun, s.replies, s.lines, s.failure, s.heldChanged, s.released = nil, nil, nil, nil, false, false
	for lane := range s.lanes {
		if has := s.shell.HasWork(lane); has != s.hadWork[lane] {
			s.hadWork[lane] = has
			if has {
				s.printf("work%s", s.inLane(lane))
			}
		}
	}
	if is := s.shell.IsDrained(); is != s.stopped {
		s.stopped = is
		s.printf("drained: %v", is)
	}
}

func (s *story) inLane(lane int) string {
	if s.lanes == 1 {
		return ""
	}
	return fmt.Sprintf(" in lane %d", lane)
}

func attempt(run core.Run) string {
	if run.Task.Attempt == 1 {
		return ""
	}
	return fmt.Sprintf(", attempt %d", run.Task.Attempt)
}

func reply(r Reply) string {
	answer := func(what string, numbers []string) string {
		said := "done"
		if r.Err != nil {
			said, _, _ = strings.Cut(r.Err.Error(), ":")
		}
		return fmt.Sprintf("%s %s: %s", what, strings.Join(numbers, " and "), said)
	}
	if r.Edit != nil {
		text := answer("change", []string{fmt.Sprint(number(r.Edit.Change.ID))})
		if r.Err == nil && r.Edit.After == nil {
			text = strings.Replace(text, "done", "too late", 1)
		}
		return text
	}
	var numbers []string
	for i, t := range r.Submission.Rows {
		text := fmt.Sprint(number(t.ID))
		if r.Err == nil && !r.Submission.Inserted[i].Created() {
			text += " (which exists)"
		}
		numbers = append(numbers, text)
	}
	return answer("submit", slices.Clip(numbers))
}
