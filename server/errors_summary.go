package server

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/task"
)

// summaryInterval is the time between two summaries of tasks in error in the log.
const summaryInterval = time.Minute

// Bounds of a summary. Clients choose types, and a task of any type may expire and become an error.
const (
	summaryTypes = 1000 // types that are counted separately
	summaryLines = 20   // types that get a line of their own
)

// errorSummary counts tasks that became errors, by type, between two summaries.
type errorSummary struct {
	mu     sync.Mutex
	since  time.Time               // of the first task; guarded by mu
	byType map[string]*errorsOfOne // guarded by mu
	others errorsOfOne             // of types beyond summaryTypes; guarded by mu
}

// errorsOfOne counts the tasks of one type.
type errorsOfOne struct {
	tasks       int
	first, last task.ID // of these tasks
}

func (e *errorsOfOne) add(id task.ID) {
	if e.tasks == 0 {
		e.first = id
	}
	e.tasks++
	e.last = id
}

// add counts a task.
func (s *errorSummary) add(id task.ID, typ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = time.Now()
	}
	of := s.byType[typ]
	if of == nil {
		if len(s.byType) == summaryTypes {
			s.others.add(id)
			return
		}
		if s.byType == nil {
			s.byType = make(map[string]*errorsOfOne)
		}
		of = new(errorsOfOne)
		s.byType[typ] = of
	}
	of.add(id)
}

// take returns the counts and resets them.
func (s *errorSummary) take() (since time.Time, byType map[string]*errorsOfOne, others errorsOfOne) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, byType, others = s.since, s.byType, s.others
	s.since, s.byType, s.others = time.Time{}, nil, errorsOfOne{}
	return since, byType, others
}

// write logs the counts since the last summary, the types with most tasks first.
func (s *errorSummary) write(log *slog.Logger) {
	since, byType, others := s.take()
	if since.IsZero() {
		return
	}
	within := time.Since(since).Round(time.Second)
	names := make([]string, 0, len(byType))
	for name := range byType {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(byType[b].tasks, byType[a].tasks), cmp.Compare(a, b))
	})
	line := func(typ slog.Attr, of errorsOfOne) {
		log.LogAttrs(context.Background(), slog.LevelWarn, "tasks are in error and need a person", typ,
			slog.Int("tasks", of.tasks), slog.Duration("within", within),
			slog.String("first", of.first.String()), slog.String("last", of.last.String()))
	}
	for i, name := range names {
		if i < summaryLines {
			line(slog.String("type", text(name)), *byType[name])
			continue
		}
		if others.tasks == 0 {
			others.first = byType[name].first
		}
		others.tasks += byType[name].tasks
		others.last = byType[name].last
	}
	if others.tasks > 0 {
		line(slog.Int("other_types", max(len(names)-summaryLines, 1)), others)
	}
}
