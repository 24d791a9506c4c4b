package postgres

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

// isExit reports whether a change ends an attempt and updateExit makes it: the task waits for a signal or for children, adds
// children, is tried again, or has failed.
func isExit(c *task.Change) bool {
	switch {
	case c.By.IsZero(), c.Due, c.To == task.Processing, !c.To.Valid(), c.To == task.Error && c.Error == "":
		return false
	case c.Replace != nil, c.Put != nil, c.Mark != nil, c.Restore != nil, c.Forgets(), c.FreesKey, c.Signal != nil, c.Ends != nil, c.More != nil, c.Reencoded != nil, c.Search != nil:
		return false
	case c.Await != nil:
		return c.To == task.Waiting && c.Outcome == task.Completed && len(c.Await.Names) > 0 && namesOnce(c)
	}
	return len(c.Adds) == 0 || c.Completes(task.Processing) && namesOnce(c)
}

// namesOnce reports whether each name is once in the children that are added, with as many shards as children, and once in the waits.
func namesOnce(c *task.Change) bool {
	seen := make(map[string]bool, len(c.Adds))
	for i := range c.Adds {
		a := &c.Adds[i]
		if seen[a.Name] || a.Shards != nil && len(a.Shards) != int(a.Count) {
			return false
		}
		seen[a.Name] = true
	}
	clear(seen)
	if c.Await != nil {
		for _, w := range c.Await.Children {
			if seen[w.Name] {
				return false
			}
			seen[w.Name] = true
		}
	}
	return true
}

// exit queues the statements that do what [task.Change.Apply] does for the ends of attempts in w.exits.
func (v *verbs) exit(ctx context.Context, p *pipe, w *swaps) {
	if len(w.exits) == 0 {
		return
	}
	v.updateExits(p, w)
	var ends []ending
	var gone []task.ID
	for _, i := range w.exits {
		switch c := &w.changes[i]; {
		case !finished(c.To):
		case i < len(w.remove) && w.remove[i]:
			gone = append(gone, c.ID)
		default:
			ends = append(ends, v.store.partitions.endingOf(c.ID, c.At, c.NextEventAt))
		}
	}
	end, remove := v.store.sql.end, v.store.sql.removeExits
	if w.notes {
		end, remove = v.store.sql.endNoted, v.store.sql.removeExitsNoted
	}
	if len(ends) > 0 {
		v.makeRoom(ctx, p, ends)
		ids, at, keep := columns(ends)
		p.add(nil, end, ids, at, keep)
	}
	if len(gone) > 0 {
		p.add(nil, remove, uuids(gone, itself))
	}
}

// updateExits queues the statement that changes their rows.
func (v *verbs) updateExits(p *pipe, w *swaps) {
	some := make([]*task.Change, len(w.exits))
	errors := make([]string, len(w.exits))
	for j, i := range w.exits {
		some[j] = &w.changes[i]
		if some[j].Error != "" { // it is applied to an empty row to learn the text that is stored
			row := task.Task{ID: some[j].ID, State: task.Processing}
			task.Change{Ref: row.Ref(), To: task.Error, Error: some[j].Error}.Apply(&row)
			errors[j] = row.LastError
		}
	}
	at := func(of func(*task.Change) time.Time) *array {
		return bigints(some, func(c *task.Change) int64 { return micro(task.Stamp(of(c))) })
	}
	part := func(of func(*task.Change) *[]byte) *array {
		return bytesOrNull(some, func(c *task.Change) []byte {
			if p := of(c); p != nil {
				return *p
			}
			return nil
		})
	}
	is := func(of func(*task.Change) bool) *array { return booleans(some, of) }
	sql := v.store.sql.exit
	if v.tx != nil {
		sql = v.store.sql.exitInTx
	}
	p.add(w.answers(w.exits), sql,
		uuids(some, func(c *task.Change) task.ID { return c.ID }), bigints(some, func(c *task.Change) int64 { return int64(c.Version) }),
		uuids(some, func(c *task.Change) task.ID { return c.By }), smallints(some, func(c *task.Change) int16 { return int16(c.To) }),
		at(func(c *task.Change) time.Time { return c.At }), bigintsOrNull(some, func(c *task.Change) (int64, bool) { return micro(task.Stamp(c.ReadyAt)), !c.ReadyAt.IsZero() }),
		at(func(c *task.Change) time.Time { return c.NextEventAt }), at(overdueAt),
		smallints(some, func(c *task.Change) int16 { return int16(c.Outcome) }), smallints(some, func(c *task.Change) int16 { return int16(c.Count) }),
		textsOrNull(errors, itself), bytesOrNull(some, func(c *task.Change) []byte { return c.Result }),
		is(func(c *task.Change) bool { return c.Completes(task.Processing) }),
		is(func(c *task.Change) bool { return c.Checkpoint != nil }), part(func(c *task.Change) *[]byte { return c.Checkpoint }),
		is(func(c *task.Change) bool { return c.Payload != nil }), part(func(c *task.Change) *[]byte { return c.Payload }),
		is(func(c *task.Change) bool { return c.Group != nil }), texts(some, groupOf),
		is(func(c *task.Change) bool { return c.Leaves }), is(func(c *task.Change) bool { return c.Count == task.Reset && c.Await == nil }),
		bytesOrNull(some, func(c *task.Change) []byte { return encodeNames(awaitOf(c).Names) }),
		bigints(some, func(c *task.Change) int64 { return int64(awaitOf(c).Patience) }),
		is(func(c *task.Change) bool {
			return len(c.Adds) > 0 || slices.Contains(awaitOf(c).Names, task.AwaitsChildren) || len(awaitOf(c).Children) > 0
		}),
		bytesOrNull(some, func(c *task.Change) []byte { return encodeAdds(c.Adds) }),
		bytesOrNull(some, func(c *task.Change) []byte { return encodeWaits(awaitOf(c).Children) }),
		bigintsOrNull(errors, func(text string) (int64, bool) { return kindNumber(task.KindOfError(text)), text != "" }))
}

// awaitOf returns the wait that begins with a change; an empty one if none does.
func awaitOf(c *task.Change) task.Await {
	if c.Await == nil {
		return task.Await{}
	}
	return *c.Await
}

// overdueAt returns the time from which the task of a change is overdue if its wait is over at once; zero is never.
func overdueAt(c *task.Change) time.Time {
	if a := awaitOf(c); a.Patience > 0 {
		return c.At.Add(a.Patience)
	}
	return time.Time{}
}

// groupOf returns the new group of a change, "" if it keeps the old one.
func groupOf(c *task.Change) string {
	if c.Group == nil {
		return ""
	}
	return *c.Group
}

// encodeAdds returns children that are added as the function family_with reads them.
func encodeAdds(adds []task.AddedChildren) (b []byte) {
	for i := range adds {
		a := &adds[i]
		b = binary.BigEndian.AppendUint64(appendText(b, a.Name), uint64(a.From))
		b = appendText(binary.BigEndian.AppendUint64(b, uint64(a.Count)), string(a.Shards))
	}
	return b
}

// encodeWaits returns waits for children likewise.
func encodeWaits(waits []task.ChildrenWait) (b []byte) {
	for _, w := range waits {
		orFailed := uint64(0)
		if w.OrFailed {
			orFailed = 1
		}
		b = binary.BigEndian.AppendUint64(appendText(b, w.Name), uint64(w.Count))
		b = binary.BigEndian.AppendUint64(b, orFailed)
	}
	return b
}
