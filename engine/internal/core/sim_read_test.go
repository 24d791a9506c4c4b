//go:build !race

package core

import (
	"bytes"
	"slices"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/task"
)

// This file answers the reads of the core of a sim.

func (s *sim) load(l table.Load) (page []task.Trigger, end bool) {
	if s.rng.IntN(20) == 0 {
		return nil, false
	}
	page, end, _ = l.Read(func(after *task.Rank, limit int) (rows []task.Trigger, err error) {
		for _, row := range s.rows {
			if row.State == task.Submitted && row.Queue() == l.Queue && (after == nil || row.Rank().Compare(*after) > 0) {
				rows = append(rows, row.Trigger())
			}
		}
		slices.SortFunc(rows, func(a, b task.Trigger) int { return a.Rank.Compare(b.Rank) })
		return rows[:min(len(rows), limit)], nil
	})
	return page, end
}

func (s *sim) scan(sc table.Scan) (queues []task.Queue, end bool) {
	for _, row := range s.rows {
		if row.State == task.Submitted && row.Type > sc.After.Type && !slices.Contains(queues, row.Queue()) {
			queues = append(queues, row.Queue())
		}
	}
	slices.SortFunc(queues, func(a, b task.Queue) int { return bytes.Compare([]byte(a.Type), []byte(b.Type)) })
	return queues, true
}

func (s *sim) loadDue(l DueLoad) (page []Due, end bool) {
	if s.rng.IntN(20) == 0 {
		return nil, false
	}
	for _, row := range s.rows {
		d := Due{row.Trigger(), row.NextEventAt}
		after := d.At.After(l.AfterAt) || d.At.Equal(l.AfterAt) && d.ID.Compare(l.AfterID) > 0
		if row.State == l.State && !row.NextEventAt.IsZero() && after {
			page = append(page, d)
		}
	}
	slices.SortFunc(page, func(a, b Due) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return a.ID.Compare(b.ID)
	})
	limit := min(l.Limit, 5)
	return page[:min(len(page), limit)], len(page) < limit
}
