package postgres

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/task"
)

// noTime is the zero time as a column.
var noTime = time.Time{}.UnixMicro()

func micro(t time.Time) int64 { return t.UnixMicro() }

func moment(us int64) time.Time {
	if us == noTime {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// scanRow reads the columns of a row: {narrow} of [schema.Fill], and as many of {heavy} as follow.
func scanRow(rows pgx.Rows) (*task.Task, error) {
	return scanTask(&reader{values: rows.RawValues()})
}

func scanTask(v *reader) (*task.Task, error) {
	t := new(task.Task)
	copy(t.ID[:], v.next())
	copy(t.Owner[:], v.next())
	t.Version, t.Seq = uint64(v.int64()), uint64(v.int64())
	t.CreatedAt, t.ReadyAt, t.NextEventAt = v.moment(), v.moment(), v.moment()
	t.ExpiresAt, t.StartedAt, t.UpdatedAt = v.moment(), v.moment(), v.moment()
	t.Attempt, t.Crashes = uint32(v.int32()), uint32(v.int32())
	t.Shard, t.Turn = uint16(v.int16()), task.Turn(v.int16())
	t.State, t.Priority = task.State(v.int16()), uint8(v.int16())
	t.Boost = uint8(v.int16OrNull())
	t.Priority += t.Boost // the column is the priority with which it runs
	t.Inherits, t.Tombstone = v.isTrue(), v.isTrue()
	t.Type, t.Group, t.Key, t.OrderingKey = v.text(), v.text(), v.text(), v.text()
	t.Node = v.text()
	t.Headers = decodeHeaders(v)
	progress := decodeProgress(v)
	t.LastError = v.text()
	t.History = decodeHistory(v)
	awaits, by := decodeNames(v), task.WakeBy(v.int16OrNull())
	t.Signals = task.NewSignals(task.Signals{Awaits: awaits, Wake: task.Wake{By: by}})
	t.Parent = decodeParent(v)
	t.Search = decodeSearch(v)
	var checkpoint []byte
	if v.more() {
		t.Signals, t.Children = decodeSignals(v, awaits, by), decodeChildren(v)
		if !slices.Contains(awaits, task.AwaitsChildren) && !slices.Contains(awaits, task.AfterSet) {
			t.Children = t.Children.Resting()
		}
	}
	if v.more() {
		checkpoint, t.Payload = v.bytes(), v.bytes()
	}
	if v.more() {
		t.Result = v.bytes()
	}
	t.Notes = task.NewNotes(progress, checkpoint)
	if v.err != nil {
		return nil, fmt.Errorf("row %v: %w", t.ID, v.err)
	}
	return t, nil
}

// triggers are the columns of a [task.Trigger], in the order in which scanTrigger reads
// them.
const triggers = `id, version, type, grp, priority, ready_at, seq, shard, turn`

func scanTrigger(v *reader) (t task.Trigger) {
	copy(t.ID[:], v.next())
	t.Version = uint64(v.int64())
	t.Type, t.Group = v.text(), v.text()
	t.Priority, t.ReadyAt = uint8(v.int16()), v.int64()
	t.Seq = uint64(v.int64())
	t.Shard, t.Turn = uint16(v.int16()), task.Turn(v.int16())
	return t
}

// turnOf returns the column turn of a row.
func turnOf(t *task.Task) int16 {
	if t.OrderingKey == "" || finished(t.State) {
		return int16(task.Unordered)
	}
	return int16(t.Turn)
}

// reader reads the values of one row one after the other, in PostgreSQL's binary format.
type reader struct {
	values [][]byte
	at     int
	err    error // that of the first value that has the wrong size or is missing
}

func (r *reader) more() bool { return r.at < len(r.values) }

func (r *reader) next() []byte {
	if !r.more() {
		r.fail()
		return nil
	}
	r.at++
	return r.values[r.at-1]
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = fmt.Errorf("column %d is missing or has the wrong size", r.at)
	}
}

// sized returns the next value, which must have n bytes.
func (r *reader) sized(n int) []byte {
	v := r.next()
	if len(v) != n {
		r.fail()
		return make([]byte, n)
	}
	return v
}

func (r *reader) int64() int64 { return int64(binary.BigEndian.Uint64(r.sized(8))) }
func (r *reader) int32() int32 { return int32(binary.BigEndian.Uint32(r.sized(4))) }
func (r *reader) int16() int16 { return int16(binary.BigEndian.Uint16(r.sized(2))) }

// int16OrNull reads a number, of which null is 0.
func (r *reader) int16OrNull() int16 {
	if v := r.next(); len(v) == 2 {
		return int16(binary.BigEndian.Uint16(v))
	} else if v != nil {
		r.fail()
	}
	return 0
}

func (r *reader) moment() time.Time { return moment(r.int64()) }

// isTrue reads a boolean, of which null is false.
func (r *reader) isTrue() bool { return slices.Equal(r.next(), []byte{1}) }

func (r *reader) text() string { return string(r.next()) }

// bytes returns a copy of the next value, nil if it is null or empty.
func (r *reader) bytes() []byte {
	if v := r.next(); len(v) > 0 {
		return append([]byte(nil), v...)
	}
	return nil
}

// dueState returns the state by which the index of due rows has a row, 0 if it does not have it.
func dueState(s task.State, nextEventAt time.Time) task.State {
	if s == task.Waiting || s == task.Error || s == task.Submitted && !nextEventAt.IsZero() {
		return s
	}
	return 0
}

// finished reports whether rows in state s are in the table ended.
func finished(s task.State) bool {
	return s == task.Done || s == task.Failed || s == task.Cancelled
}
